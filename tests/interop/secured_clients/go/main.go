// Secured prints what clients of franz-go by TLS and SASL read, or the error that they get.
//
// The arguments are the address, the file of the CA, and log-ins as NAME=MECHANISM=USER=PASSWORD. A name begins with
// "good" if the client may use the topic, the group and the transactional id "open-NAME", and with "bad" if the broker
// does not accept the client at all. The first one also tries what it may not do.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const patience = 20 * time.Second

func main() {
	address, pem := os.Args[1], os.Args[2]
	authority, err := os.ReadFile(pem)
	if err != nil {
		log.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	for index, logIn := range os.Args[3:] {
		part := strings.Split(logIn, "=")
		name, open := part[0], "open-"+part[0]
		common := []kgo.Opt{
			kgo.SeedBrokers(address), kgo.SASL(mechanism(part[1], part[2], part[3])), kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}),
			kgo.RequestRetries(1), kgo.MetadataMinAge(50 * time.Millisecond),
		}
		if strings.HasPrefix(name, "good") {
			show(name+" copies", func(ctx context.Context) (string, error) { return copied(ctx, common, open) })
		}
		if index == 0 {
			show(name+" reads", func(ctx context.Context) (string, error) { return read(ctx, common, "closed", open) })
		}
		if index == 0 || strings.HasPrefix(name, "bad") {
			show(name+" sends", func(ctx context.Context) (string, error) { return sent(ctx, common, "", "closed") })
			show(name+" begins", func(ctx context.Context) (string, error) { return sent(ctx, common, "closed", open) })
			if index == 0 { // a member whose log-in fails tries again forever
				show(name+" joins", func(ctx context.Context) (string, error) { return read(ctx, common, open, "closed") })
			}
			show(name+" creates", func(ctx context.Context) (string, error) { return created(ctx, common, "closed-too") })
		}
	}
}

func mechanism(name, user, password string) sasl.Mechanism {
	switch name {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	default:
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	}
}

func show(title string, body func(context.Context) (string, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	result, err := body(ctx)
	var code *kerr.Error
	if errors.As(err, &code) {
		result = code.Message
	} else if err != nil {
		result = err.Error()
	}
	fmt.Printf("%s: %s\n", title, result)
}

func client(common []kgo.Opt, more ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(append([]kgo.Opt{}, common...), more...)...)
	if err != nil {
		log.Fatal(err)
	}
	return made
}

func copied(ctx context.Context, common []kgo.Opt, name string) (string, error) {
	producer := client(common, kgo.TransactionalID(name))
	defer producer.Close()
	for _, values := range [][]string{{"aborted"}, {"a", "b"}} {
		if err := producer.BeginTransaction(); err != nil {
			return "", err
		}
		for _, value := range values {
			record := &kgo.Record{Topic: name, Value: []byte(value)}
			if err := producer.ProduceSync(ctx, record).FirstErr(); err != nil {
				return "", err
			}
		}
		if err := producer.EndTransaction(ctx, len(values) == 2); err != nil {
			return "", err
		}
	}
	return read(ctx, common, name, name)
}

func sent(ctx context.Context, common []kgo.Opt, id, topic string) (string, error) {
	more := []kgo.Opt{kgo.RecordRetries(0)}
	if id != "" {
		more = append(more, kgo.TransactionalID(id))
	}
	producer := client(common, more...)
	defer producer.Close()
	if id != "" {
		if err := producer.BeginTransaction(); err != nil {
			return "", err
		}
	}
	return "sent", producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr()
}

func read(ctx context.Context, common []kgo.Opt, topic, group string) (string, error) {
	consumer := client(common, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer consumer.Close()
	var found []string
	for len(found) < 2 {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return "", err
		}
		fetches.EachRecord(func(record *kgo.Record) { found = append(found, string(record.Value)) })
	}
	return strings.Join(found, " "), consumer.CommitUncommittedOffsets(ctx)
}

func created(ctx context.Context, common []kgo.Opt, topic string) (string, error) {
	admin := client(common)
	defer admin.Close()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, 1, 1
	request := kmsg.NewCreateTopicsRequest()
	request.Topics = append(request.Topics, wanted)
	response, err := request.RequestWith(ctx, admin)
	if err != nil {
		return "", err
	}
	return "created", kerr.ErrorForCode(response.Topics[0].ErrorCode)
}
