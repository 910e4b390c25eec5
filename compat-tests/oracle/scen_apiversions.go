package oracle

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func apiVersionsScenarios(l *list) {
	l.each(18, "api versions/table", func(s *Session, v int16) {
		s.Conn().Do(v, apiVersions("oracle", "1.0"))
	})
	l.each(18, "api versions/again", func(s *Session, v int16) {
		c := s.Conn()
		c.Send(v, apiVersions("a", "1")).Summary().Wait()
		c.Do(4, metadata())
		c.Send(v, apiVersions("b", "2")).Note("second time").Wait()
	})
	l.between(18, 3, 5, "api versions/software", apiVersionsSoftware)
	l.one(18, 6, "api versions/too new", apiVersionsTooNew)
	l.between(18, 5, 5, "api versions/cluster and node", apiVersionsCluster)
}

func apiVersions(software, version string) *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = software, version
	return req
}

func apiVersionsSoftware(s *Session, v int16) {
	for _, sw := range [][2]string{{"", ""}, {"a", ""}, {"", "1"}, {"a", "1"}, {"a b", "1"}, {"a", "1 2"}, {"-a", "1"}, {"a-", "1"}, {"a.b-c", "1.2-3"}, {"ä", "1"}, {"a_b", "1"}, {"a", ".1"}} {
		s.Conn().Send(v, apiVersions(sw[0], sw[1])).Note(fmt.Sprintf("%q %q", sw[0], sw[1])).Wait()
	}
}

// apiVersionsTooNew: whatever the body is, the answer is in version 0's encoding.
func apiVersionsTooNew(s *Session) {
	for _, version := range []int16{6, 7, 99, 32767, -1} {
		c := s.Conn()
		req := apiVersions("a", "1")
		call := c.newCall(5, req)
		header := requestHeader(req, 5, call.correlation, c.clientID)
		header[2], header[3] = byte(version>>8), byte(version)
		call.label = fmt.Sprintf("ApiVersions v%d", version)
		c.write(frameOf(append(header, 0xff, 0xff, 0xff, 0xff, 0xff)))
		c.pending = append(c.pending, call)
		call.Wait()
		c.Send(0, apiVersions("", "")).Note("afterwards").Wait()
	}
}

func apiVersionsCluster(s *Session, v int16) {
	for _, node := range []int32{-1, 1, 2, 99} {
		for _, cluster := range []*string{nil, ptr("AAAAAAAAAAAAAAAAAAAAAA")} {
			req := apiVersions("a", "1")
			req.NodeID, req.ClusterID = node, cluster
			s.Conn().Send(v, req).Note(fmt.Sprintf("node %d, wrong cluster id %t", node, cluster != nil)).Wait()
		}
	}
	c := s.Conn()
	own := s.setup(4, metadata()).(*kmsg.MetadataResponse).ClusterID
	for _, node := range []int32{-1, 1, 2} {
		req := apiVersions("a", "1")
		req.ClusterID, req.NodeID = own, node
		c.Send(v, req).Note(fmt.Sprintf("its own cluster id, node %d", node)).Wait()
	}
}
