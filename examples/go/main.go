// Greet sends three greetings and reads them in a group, with franz-go.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap := "127.0.0.1:9092"
	if len(os.Args) > 1 {
		bootstrap = os.Args[1]
	}
	topic := fmt.Sprintf("greetings-%d", time.Now().UnixNano())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	producer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.AllowAutoTopicCreation())
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"Ada", "Grace", "Edsger"} {
		record := &kgo.Record{Topic: topic, Value: []byte("hello " + name)}
		if err := producer.ProduceSync(ctx, record).FirstErr(); err != nil {
			log.Fatal(err)
		}
	}
	producer.Close()

	consumer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumerGroup("greeted-"+topic),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		log.Fatal(err)
	}
	defer consumer.Close()
	for left := 3; left > 0; {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			log.Fatal(err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Println(string(record.Value))
			left--
		})
	}
}
