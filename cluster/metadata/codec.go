package metadata

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
)

// codec visits the fields of a record in the order of its schema, writing them or reading them: each record
// names its fields once, for both directions.
type codec struct {
	writing bool
	version int16
	dst     []byte      // writing
	src     kbin.Reader // reading
}

func (c *codec) int8(v *int8) {
	if c.writing {
		c.dst = kbin.AppendInt8(c.dst, *v)
		return
	}
	*v = c.src.Int8()
}

func (c *codec) int16(v *int16) {
	if c.writing {
		c.dst = kbin.AppendInt16(c.dst, *v)
		return
	}
	*v = c.src.Int16()
}

func (c *codec) uint16(v *uint16) {
	if c.writing {
		c.dst = kbin.AppendUint16(c.dst, *v)
		return
	}
	*v = c.src.Uint16()
}

func (c *codec) int32(v *int32) {
	if c.writing {
		c.dst = kbin.AppendInt32(c.dst, *v)
		return
	}
	*v = c.src.Int32()
}

func (c *codec) int64(v *int64) {
	if c.writing {
		c.dst = kbin.AppendInt64(c.dst, *v)
		return
	}
	*v = c.src.Int64()
}

func (c *codec) float64(v *float64) {
	if c.writing {
		c.dst = kbin.AppendFloat64(c.dst, *v)
		return
	}
	*v = c.src.Float64()
}

func (c *codec) bool(v *bool) {
	if c.writing {
		c.dst = kbin.AppendBool(c.dst, *v)
		return
	}
	*v = c.src.Bool()
}

func (c *codec) string(v *string) {
	if c.writing {
		c.dst = kbin.AppendCompactString(c.dst, *v)
		return
	}
	*v = c.src.CompactString()
}

func (c *codec) nullableString(v **string) {
	if c.writing {
		c.dst = kbin.AppendCompactNullableString(c.dst, *v)
		return
	}
	*v = c.src.CompactNullableString()
}

func (c *codec) bytes(v *[]byte) {
	if c.writing {
		c.dst = kbin.AppendCompactBytes(c.dst, *v)
		return
	}
	*v = append([]byte{}, c.src.CompactBytes()...)
}

func (c *codec) uuid(v *UUID) {
	if c.writing {
		c.dst = kbin.AppendUuid(c.dst, *v)
		return
	}
	*v = c.src.Uuid()
}

func (c *codec) int32s(v *[]int32) { array(c, v, 4, (*codec).int32) }
func (c *codec) uuids(v *[]UUID)   { array(c, v, 16, (*codec).uuid) }

// array visits a compact array, nil being null. minBytes, the least that an element takes, bounds what a lying
// count can allocate.
func array[T any](c *codec, v *[]T, minBytes int, element func(*codec, *T)) {
	if c.writing {
		c.dst = kbin.AppendCompactNullableArrayLen(c.dst, len(*v), *v == nil)
	} else {
		n := int(c.src.CompactArrayLen())
		switch {
		case !c.src.Ok() || n < 0:
			*v = nil
			return
		case n > len(c.src.Src)/minBytes:
			c.fail()
			return
		}
		*v = make([]T, n)
	}
	for i := range *v {
		element(c, &(*v)[i])
	}
}

// noTags ends a structure without tagged fields.
func (c *codec) noTags() { c.tags() }

// tag is a tagged field; it is written when set (its value is not the default).
type tag struct {
	id    uint32
	set   bool
	visit func(*codec)
}

// tags ends a structure: its tagged fields, ascending by id. Unknown ones are skipped.
func (c *codec) tags(known ...tag) {
	if c.writing {
		c.writeTags(known)
		return
	}
	for n := c.src.Uvarint(); n > 0 && c.src.Ok(); n-- {
		id := c.src.Uvarint()
		value := c.src.Span(int(c.src.Uvarint()))
		for _, t := range known {
			if t.id == id && c.src.Ok() {
				c.readTag(t, value)
			}
		}
	}
}

func (c *codec) readTag(t tag, value []byte) {
	field := codec{version: c.version, src: kbin.Reader{Src: value}}
	t.visit(&field)
	if field.src.Complete() != nil || len(field.src.Src) > 0 {
		c.fail()
	}
}

func (c *codec) writeTags(known []tag) {
	var count uint32
	for _, t := range known {
		if t.set {
			count++
		}
	}
	c.dst = kbin.AppendUvarint(c.dst, count)
	for _, t := range known {
		if !t.set {
			continue
		}
		field := codec{writing: true, version: c.version}
		t.visit(&field)
		c.dst = kbin.AppendUvarint(c.dst, t.id)
		c.dst = kbin.AppendUvarint(c.dst, uint32(len(field.dst)))
		c.dst = append(c.dst, field.dst...)
	}
}

// fail makes the reader refuse what follows.
func (c *codec) fail() { c.src.Span(-1) }

// finish reports a short or an overlong body.
func (c *codec) finish() error {
	if err := c.src.Complete(); err != nil {
		return err
	}
	if n := len(c.src.Src); n > 0 {
		return fmt.Errorf("%d bytes left over", n)
	}
	return nil
}
