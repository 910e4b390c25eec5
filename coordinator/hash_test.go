package coordinator

import "testing"

// TestJavaHash holds JavaHash against values of String.hashCode.
func TestJavaHash(t *testing.T) {
	for text, want := range map[string]int32{
		"": 0, "a": 97, "group": 98629247, "consumer-group-1": 147483020, "ü": 252, "日本": 835047, "😀": 1772899, "polygenelubricants": -2147483648,
	} {
		if got := JavaHash(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestPartitionOf holds PartitionOf against Utils.abs(hash) % partitions.
func TestPartitionOf(t *testing.T) {
	for text, want := range map[string]int32{"a": 47, "group": 47, "polygenelubricants": 0, "txn-etl": 14, "my-transactional-id": 46} {
		if got := PartitionOf(text, 50); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
