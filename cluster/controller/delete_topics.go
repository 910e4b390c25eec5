package controller

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// deleteTopics is ControllerApis.deleteTopics: topics are named, or from v6 on named or given by id.
func (v *view) deleteTopics(req *kmsg.DeleteTopicsRequest) ([]metadata.Record, *kmsg.DeleteTopicsResponse) {
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	d := deletion{view: v, resp: resp, ids: map[metadata.UUID]int{}, names: map[string]int{}}
	given := req.Topics
	for i := range req.TopicNames {
		given = append(given, kmsg.DeleteTopicsRequestTopic{Topic: &req.TopicNames[i]})
	}
	if !v.static.Bool("delete.topic.enable") {
		d.refuseAll(given, deletionDisabled(req.Version))
		return nil, resp
	}
	d.count(given)
	for _, t := range given {
		d.delete(t)
	}
	if f := tooLarge(d.records); f != nil {
		resp.Topics = nil
		d.refuseAll(given, f)
		return nil, resp
	}
	return d.records, resp
}

func deletionDisabled(version int16) *fault {
	if version < 3 {
		return refuse(kerr.InvalidRequest, "Topic deletion is disabled.")
	}
	return standard(kerr.TopicDeletionDisabled)
}

// deletion is the work on one request.
type deletion struct {
	view    *view
	resp    *kmsg.DeleteTopicsResponse
	records []metadata.Record
	ids     map[metadata.UUID]int // how often each id is given; -1 once that has been answered
	names   map[string]int        // the same for names
}

func (d *deletion) answer(name *string, id metadata.UUID, f *fault) {
	r := kmsg.NewDeleteTopicsResponseTopic()
	r.Topic, r.TopicID = name, id
	r.ErrorCode, r.ErrorMessage = f.fields()
	d.resp.Topics = append(d.resp.Topics, r)
}

func (d *deletion) refuseAll(given []kmsg.DeleteTopicsRequestTopic, f *fault) {
	for _, t := range given {
		d.answer(t.Topic, t.TopicID, f)
	}
}

// count finds what is given twice; a name and the id of its topic count as the same.
func (d *deletion) count(given []kmsg.DeleteTopicsRequestTopic) {
	for _, t := range given {
		switch named, hasID := t.Topic != nil, t.TopicID != metadata.ZeroUUID; {
		case named && !hasID:
			d.names[*t.Topic]++
		case !named && hasID:
			d.ids[t.TopicID]++
		}
	}
}

func (d *deletion) delete(t kmsg.DeleteTopicsRequestTopic) {
	switch named, hasID := t.Topic != nil, t.TopicID != metadata.ZeroUUID; {
	case named && hasID:
		d.answer(t.Topic, t.TopicID, refuse(kerr.InvalidRequest, "You may not specify both topic name and topic id."))
	case named:
		d.byName(*t.Topic)
	case hasID:
		d.byID(t.TopicID)
	default:
		d.answer(nil, metadata.ZeroUUID, refuse(kerr.InvalidRequest, "Neither topic name nor id were specified."))
	}
}

func (d *deletion) byName(name string) {
	if n := d.names[name]; n != 1 {
		if n > 1 {
			d.answer(&name, metadata.ZeroUUID, refuse(kerr.InvalidRequest, "Duplicate topic name."))
		}
		d.names[name] = -1
		return
	}
	t := d.view.image.Topic(name)
	switch {
	case t == nil:
		d.answer(&name, metadata.ZeroUUID, standard(kerr.UnknownTopicOrPartition))
	case d.ids[t.ID] != 0:
		d.answer(&name, t.ID, refuse(kerr.InvalidRequest, "The provided topic name maps to an ID that was already supplied."))
	default:
		d.remove(t)
	}
}

func (d *deletion) byID(id metadata.UUID) {
	if n := d.ids[id]; n != 1 {
		if n > 1 {
			d.answer(nil, id, refuse(kerr.InvalidRequest, "Duplicate topic id."))
		}
		d.ids[id] = -1
		return
	}
	t := d.view.image.TopicByID(id)
	switch {
	case t == nil:
		d.answer(nil, id, standard(kerr.UnknownTopicID))
	case d.names[t.Name] != 0: // answered where the name is
	default:
		d.remove(t)
	}
}

func (d *deletion) remove(t *metadata.Topic) {
	d.records = append(d.records, &metadata.RemoveTopicRecord{ID: t.ID})
	d.answer(&t.Name, t.ID, nil)
}
