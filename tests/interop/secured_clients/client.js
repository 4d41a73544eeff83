// Clients of KafkaJS by TLS and SASL: what they read, or the error that they get.
// The arguments are the address, the file of the CA, and log-ins as NAME=MECHANISM=USER=PASSWORD. A name begins with
// "good" if the client may use the topic, the group and the transactional id "open-NAME", and with "bad" if the broker
// does not accept the client at all. The first one also tries what it may not do.
const { readFileSync } = require("node:fs")
const { createRequire } = require("node:module")
const { Kafka, logLevel } = createRequire(process.cwd() + "/")("kafkajs")

const [address, authority, ...logIns] = process.argv.slice(2)
const retry = { retries: 1, initialRetryTime: 50, maxRetryTime: 200 }

async function show(title, body) {
  let result
  try {
    result = await body()
  } catch (error) {
    const cause = error.errors?.[0] ?? error.cause ?? error
    result = `${cause.type ?? cause.name}: ${cause.message}`
  }
  console.log(`${title}: ${result}`)
}

async function copied(kafka, name) {
  const producer = kafka.producer({ transactionalId: name, idempotent: true })
  await producer.connect()
  const aborted = await producer.transaction()
  await aborted.send({ topic: name, messages: [{ value: "aborted" }] })
  await aborted.abort()
  const kept = await producer.transaction()
  await kept.send({ topic: name, messages: [{ value: "a" }, { value: "b" }] })
  await kept.commit()
  await producer.disconnect()
  return (await read(kafka, name, name)).join(" ")
}

async function sent(kafka, topic, settings = {}) {
  const producer = kafka.producer({ retry, ...settings })
  try {
    await producer.connect()
    const way = settings.transactionalId ? await producer.transaction() : producer
    await way.send({ topic, messages: [{ value: "x" }] })
    return "sent"
  } finally {
    await producer.disconnect()
  }
}

async function read(kafka, topic, groupId) {
  const consumer = kafka.consumer({ groupId, retry: { ...retry, restartOnFailure: async () => false } })
  try {
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    const found = []
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error))
      const eachMessage = async ({ message }) => {
        found.push(message.value.toString())
        if (found.length === 2) resolve()
      }
      consumer.run({ eachMessage }).catch(reject)
    })
    return found
  } finally {
    await consumer.disconnect()
  }
}

async function created(kafka, topic) {
  const admin = kafka.admin({ retry })
  try {
    await admin.connect()
    await admin.createTopics({ topics: [{ topic }] })
    return "created"
  } finally {
    await admin.disconnect()
  }
}

async function main() {
  for (const logIn of logIns) {
    const [name, mechanism, username, password] = logIn.split("=")
    const kafka = new Kafka({
      brokers: [address],
      ssl: { ca: [readFileSync(authority)] },
      sasl: { mechanism: mechanism.toLowerCase(), username, password },
      logLevel: logLevel.NOTHING,
      retry,
    })
    const open = `open-${name}`
    if (name.startsWith("good")) await show(`${name} copies`, () => copied(kafka, open))
    if (logIn === logIns[0]) await show(`${name} reads`, () => read(kafka, "closed", open))
    if (logIn === logIns[0] || name.startsWith("bad")) {
      await show(`${name} sends`, () => sent(kafka, "closed"))
      await show(`${name} begins`, () => sent(kafka, open, { transactionalId: "closed", idempotent: true }))
      await show(`${name} joins`, () => read(kafka, open, "closed"))
      await show(`${name} creates`, () => created(kafka, "closed-too"))
    }
  }
}

main()
