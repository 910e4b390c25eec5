package clients

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const stepTimeout = 20 * time.Second

func securedFranz(c secured) ([]said, error) {
	return c.inGo(goSteps{
		produce: func(way, topic string, good bool) error {
			return c.franz(way, good, nil, func(ctx context.Context, cl *kgo.Client) error {
				return cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(way)}).FirstErr()
			})
		},
		consume: func(way, group string) error {
			opts := []kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics("t-" + c.Client), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
			return c.franz(way, true, opts, func(ctx context.Context, cl *kgo.Client) error { return franzRead(ctx, cl, way) })
		},
		transact: func(way, id string) error {
			return c.franz(way, true, []kgo.Opt{kgo.TransactionalID(id)}, func(ctx context.Context, cl *kgo.Client) error {
				if err := cl.BeginTransaction(); err != nil {
					return err
				}
				if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t-" + c.Client, Value: []byte(way)}).FirstErr(); err != nil {
					return err
				}
				return cl.EndTransaction(ctx, kgo.TryCommit)
			})
		},
		name: func(err error) string {
			if of := (*kerr.Error)(nil); errors.As(err, &of) {
				return of.Message
			}
			return err.Error()
		},
	})
}

func (c secured) franz(way string, good bool, opts []kgo.Opt, work func(context.Context, *kgo.Client) error) error {
	config, err := c.tls(way, good)
	if err != nil {
		return err
	}
	password, token := c.secrets(good)
	opts = append(opts, kgo.SeedBrokers(c.address(way)), kgo.DialTLSConfig(config), kgo.RetryTimeout(stepTimeout/2), kgo.RequestRetries(2), kgo.RecordRetries(2))
	user := scram.Auth{User: c.User, Pass: password}
	switch way {
	case "PLAIN":
		opts = append(opts, kgo.SASL(plain.Auth{User: c.User, Pass: password}.AsMechanism()))
	case "SCRAM-SHA-256":
		opts = append(opts, kgo.SASL(user.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		opts = append(opts, kgo.SASL(user.AsSha512Mechanism()))
	case "OAUTHBEARER":
		opts = append(opts, kgo.SASL(oauth.Auth{Token: token}.AsMechanism()))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	return work(ctx, cl)
}

func franzRead(ctx context.Context, cl *kgo.Client, value string) error {
	for {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, r := range fetches.Records() {
			if string(r.Value) == value {
				return nil
			}
		}
	}
}
