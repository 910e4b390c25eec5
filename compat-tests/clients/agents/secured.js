// Logs kafkajs in by every way and says what became of each step, as JSON lines: node secured.js CONFIG, which is JSON (secured.go).
'use strict'

const fs = require('fs')
const { Kafka, Partitioners, logLevel } = require('kafkajs')

const c = JSON.parse(process.argv[2])
const topic = 't-' + c.client
const ca = fs.readFileSync(c.ca)
const waitMs = 20000

function kafka (way, good) {
  // kafkajs authenticates again that long before a session ends: 10 s unless told, which is a whole session here.
  const common = { logLevel: logLevel.NOTHING, retry: { retries: good ? 10 : 1, initialRetryTime: 100 }, reauthenticationThreshold: 2000 }
  if (way === 'SSL') {
    const pem = fs.readFileSync(good ? c.pem : c.otherPem)
    return new Kafka({ ...common, brokers: [c.ssl], ssl: { ca, cert: pem, key: pem } })
  }
  const sasl = way === 'OAUTHBEARER'
    ? { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: good ? c.token : c.otherToken }) }
    : { mechanism: way.toLowerCase(), username: c.user, password: good ? c.password : c.otherPassword }
  return new Kafka({ ...common, brokers: [c.sasl], ssl: { ca }, sasl })
}

async function produce (way, to, good = true) {
  const producer = kafka(way, good).producer({ createPartitioner: Partitioners.DefaultPartitioner })
  try {
    await producer.connect()
    await producer.send({ topic: to, acks: -1, messages: [{ value: way }] })
  } finally {
    await producer.disconnect()
  }
}

async function consume (way, groupId) {
  const consumer = kafka(way, true).consumer({ groupId, retry: { retries: 0 } })
  let timer
  try {
    await new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(new Error('not read')), waitMs)
      consumer.on(consumer.events.CRASH, e => reject(e.payload.error))
      consumer.connect()
        .then(() => consumer.subscribe({ topic, fromBeginning: true }))
        .then(() => consumer.run({ eachMessage: async ({ message }) => { if (message.value.toString() === way) resolve() } }))
        .catch(reject)
    })
  } finally {
    clearTimeout(timer)
    await consumer.disconnect()
  }
}

async function transact (way, transactionalId) {
  const producer = kafka(way, true).producer({ createPartitioner: Partitioners.DefaultPartitioner, idempotent: true, maxInFlightRequests: 1, transactionalId })
  try {
    await producer.connect()
    const transaction = await producer.transaction()
    await transaction.send({ topic, acks: -1, messages: [{ value: way }] })
    await transaction.commit()
  } finally {
    await producer.disconnect()
  }
}

async function step (way, step, work) {
  let outcome = 'ok'
  try {
    await work()
  } catch (e) {
    process.stderr.write(`${way} ${step}: ${e.name} ${e.type} ${e.message}\n`)
    while (e.cause) e = e.cause
    outcome = e.type || e.name
  }
  process.stdout.write(JSON.stringify({ way, step, outcome }) + '\n')
}

async function main () {
  for (const way of c.ways) {
    await step(way, 'produce', () => produce(way, topic))
    await step(way, 'consume', () => consume(way, `g-${c.client}-${way}`))
    await step(way, 'transact', () => transact(way, `x-${c.client}-${way}`))
    await step(way, 'login', () => produce(way, topic, false))
    await step(way, 'topic', () => produce(way, 'secret'))
    await step(way, 'group', () => consume(way, 'secret'))
    await step(way, 'txn', () => transact(way, 'secret'))
  }
}

main().then(() => process.exit(0))
