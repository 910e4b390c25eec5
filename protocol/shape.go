package protocol

// A shape is a request schema at one version, compiled for the scan that comes before decoding.
type shape struct {
	flexible     bool
	fields       []shapeField
	tags         []shapeField
	decodedBytes int // what one decoded Go struct takes, not counting what its fields point to
}

// shapeField is one field, or several neighbours of fixed size in one.
type shapeField struct {
	name     string
	kind     fieldKind
	array    bool
	nullable bool
	wire     int    // bytes on the wire of a fixed field, or of a fixed element
	decoded  int    // bytes of one element in memory, not counting what it points to
	tag      uint32 // when tagged
	elem     *shape // of a struct
}

type fieldKind uint8

const (
	kindFixed fieldKind = iota
	kindString
	kindBytes
	kindStruct
)

var fixedSizes = map[string]int{
	"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16,
}

const (
	stringHeaderBytes = 16
	sliceHeaderBytes  = 24
	pointerBytes      = 8
)

// shape returns the compiled shape of a version that the schema has.
func (s *requestSchema) shape(version int16) *shape {
	slot := &s.shapes[version-s.versions.min]
	if sh := slot.Load(); sh != nil {
		return sh
	}
	sh := compileShape(s.fields, version, s.flexible.has(version))
	slot.Store(sh) // two goroutines may compile the same; either result is good
	return sh
}

func compileShape(fields []schemaField, version int16, flexible bool) *shape {
	sh := &shape{flexible: flexible, decodedBytes: pointerBytes} // the unknown tags' map
	for i := range fields {
		f := &fields[i]
		compiled := compileField(f, version, flexible)
		sh.decodedBytes += inMemoryBytes(compiled)
		switch {
		case !f.versions.has(version):
		case f.tagged.has(version):
			sh.tags = append(sh.tags, compiled)
		default:
			sh.addField(compiled)
		}
	}
	sh.decodedBytes = (sh.decodedBytes + 7) &^ 7
	return sh
}

// addField appends f, merging it with a fixed neighbour.
func (sh *shape) addField(f shapeField) {
	if n := len(sh.fields); n > 0 && f.isPlainFixed() && sh.fields[n-1].isPlainFixed() {
		sh.fields[n-1].wire += f.wire
		return
	}
	sh.fields = append(sh.fields, f)
}

func (f *shapeField) isPlainFixed() bool { return f.kind == kindFixed && !f.array }

// fixedWire returns the element's size on the wire when all elements are alike, else 0.
func (f *shapeField) fixedWire() int {
	switch {
	case f.kind == kindFixed:
		return f.wire
	case f.kind == kindStruct && !f.elem.flexible && len(f.elem.fields) == 1 && f.elem.fields[0].isPlainFixed():
		return f.elem.fields[0].wire
	}
	return 0
}

func compileField(f *schemaField, version int16, flexible bool) shapeField {
	out := shapeField{name: f.name, array: f.array, nullable: f.nullable.has(version), tag: f.tag}
	switch f.typ {
	case "string":
		out.kind, out.decoded = kindString, stringHeaderBytes
	case "bytes", "records":
		out.kind, out.decoded = kindBytes, sliceHeaderBytes
	case "struct":
		out.kind, out.elem = kindStruct, compileShape(f.fields, version, flexible)
		out.decoded = out.elem.decodedBytes
	default:
		out.kind, out.wire = kindFixed, fixedSizes[f.typ]
		out.decoded = out.wire
	}
	return out
}

// inMemoryBytes is what the field takes within its struct.
func inMemoryBytes(f shapeField) int {
	if f.array {
		return sliceHeaderBytes
	}
	return f.decoded
}
