// Sends three greetings and reads them in a group, with KafkaJS.
const { Kafka, logLevel } = require("kafkajs")
const { randomUUID } = require("node:crypto")

const bootstrap = process.argv[2] ?? "127.0.0.1:9092"
const topic = `greetings-${randomUUID()}`
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR })

async function main() {
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, messages: ["Ada", "Grace", "Edsger"].map((name) => ({ value: `hello ${name}` })) })
  await producer.disconnect()

  const consumer = kafka.consumer({ groupId: `greeted-${topic}` })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  let left = 3
  await new Promise((resolve) =>
    consumer.run({
      eachMessage: async ({ message }) => {
        console.log(message.value.toString())
        if (--left === 0) resolve()
      },
    }),
  )
  await consumer.disconnect()
}

main()
