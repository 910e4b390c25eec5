package oracle

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
)

// LoadRecording reads transcripts written by SaveRecording.
func LoadRecording(path string) (Transcripts, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var out Transcripts
	d := json.NewDecoder(z)
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// SaveRecording writes transcripts as compressed JSON; equal transcripts make equal files.
func SaveRecording(path string, t Transcripts) error {
	plain, err := json.MarshalIndent(t, "", " ")
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	z.Write(plain)
	z.Close()
	return os.WriteFile(path, b.Bytes(), 0o644)
}
