package clients

import (
	"context"
	"errors"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

func securedSarama(c secured) ([]said, error) {
	return c.inGo(goSteps{
		produce: func(way, topic string, good bool) error {
			config, err := c.sarama(way, good)
			if err != nil {
				return err
			}
			return c.saramaSend(way, topic, config, false)
		},
		transact: func(way, id string) error {
			config, err := c.sarama(way, true)
			if err != nil {
				return err
			}
			config.Producer.Idempotent, config.Net.MaxOpenRequests, config.Producer.RequiredAcks, config.Producer.Transaction.ID = true, 1, sarama.WaitForAll, id
			return c.saramaSend(way, "t-"+c.Client, config, true)
		},
		consume: c.saramaRead,
		name: func(err error) string {
			var failed sarama.ProducerErrors
			if errors.As(err, &failed) {
				err = failed[0].Err
			}
			if code := sarama.KError(0); errors.As(err, &code) {
				return code.Error()
			}
			return err.Error()
		},
	})
}

func (c secured) sarama(way string, good bool) (*sarama.Config, error) {
	config := saramaConfig()
	var err error
	config.Net.TLS.Enable = true
	if config.Net.TLS.Config, err = c.tls(way, good); err != nil {
		return nil, err
	}
	config.Metadata.Retry.Max = 1
	if way == "SSL" {
		return config, nil
	}
	password, token := c.secrets(good)
	s := &config.Net.SASL
	s.Enable, s.Mechanism, s.User, s.Password = true, sarama.SASLMechanism(way), c.User, password
	switch way {
	case "OAUTHBEARER":
		s.TokenProvider = bearer(token)
	case "SCRAM-SHA-256":
		s.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &saramaScram{hash: scram.SHA256} }
	case "SCRAM-SHA-512":
		s.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &saramaScram{hash: scram.SHA512} }
	}
	return config, nil
}

func (c secured) saramaSend(way, topic string, config *sarama.Config, transaction bool) error {
	p, err := sarama.NewSyncProducer([]string{c.address(way)}, config)
	if err != nil {
		return err
	}
	defer p.Close()
	if transaction {
		if err := p.BeginTxn(); err != nil {
			return err
		}
	}
	if _, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(way)}); err != nil || !transaction {
		return err
	}
	return p.CommitTxn()
}

func (c secured) saramaRead(way, group string) error {
	config, err := c.sarama(way, true)
	if err != nil {
		return err
	}
	member, err := sarama.NewConsumerGroup([]string{c.address(way)}, group, config)
	if err != nil {
		return err
	}
	defer member.Close()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	seen := &seeker{value: way, found: cancel}
	for ctx.Err() == nil {
		if err := member.Consume(ctx, []string{"t-" + c.Client}, seen); err != nil && ctx.Err() == nil {
			return err
		}
	}
	if ctx.Err() != context.Canceled {
		return ctx.Err()
	}
	return nil
}

// seeker reads until it finds a value.
type seeker struct {
	value string
	found func()
}

func (*seeker) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*seeker) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (s *seeker) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		session.MarkMessage(m, "")
		if string(m.Value) == s.value {
			s.found()
		}
	}
	return nil
}

// bearer is sarama's provider of a token.
type bearer string

func (b bearer) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(b)}, nil
}

// saramaScram is the exchange as sarama's example has it.
type saramaScram struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func (s *saramaScram) Begin(user, password, authzID string) error {
	client, err := s.hash.NewClient(user, password, authzID)
	if err == nil {
		s.conversation = client.NewConversation()
	}
	return err
}

func (s *saramaScram) Step(challenge string) (string, error) { return s.conversation.Step(challenge) }
func (s *saramaScram) Done() bool                            { return s.conversation.Done() }
