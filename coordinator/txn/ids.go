package txn

import "errors"

// errNeedsID ends an operation that cannot decide without a new producer id: it is submitted again with one.
var errNeedsID = errors.New("txn: a producer id is needed")

func (s *Service) withID(got func(id int64), failed func(error)) {
	s.o.NextProducerID(func(id int64, err error) {
		if err != nil {
			failed(err)
			return
		}
		got(id)
	})
}
