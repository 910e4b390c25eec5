// Drives kafkajs with operations as JSON lines: node agent.js ADDR
'use strict'

const readline = require('readline')
const { Kafka, CompressionTypes, CompressionCodecs, Partitioners, logLevel } = require('kafkajs')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
const LZ4 = require('kafkajs-lz4')
CompressionCodecs[CompressionTypes.LZ4] = new LZ4().codec

const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.ERROR, logCreator: () => ({ log }) =>
  process.stderr.write(log.message + '\n') })
const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4 }
const members = new Map()

const decode = v => (v == null ? null : Buffer.from(v, 'base64'))
const encode = v => (v == null ? null : v.toString('base64'))
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

function headersIn (pairs) {
  const out = {}
  for (const [k, v] of pairs || []) (out[k] = out[k] || []).push(v)
  return out
}

function headersOut (headers) {
  const out = []
  for (const [k, v] of Object.entries(headers || {})) for (const one of [].concat(v)) out.push([k, one.toString()])
  return out.length ? out : null
}

function convert (partition, m) {
  return { partition, offset: Number(m.offset), timeMs: Number(m.timestamp), key: encode(m.key), value: encode(m.value), headers: headersOut(m.headers) }
}

const ops = {
  async create (op) {
    const admin = kafka.admin()
    await admin.connect()
    await admin.createTopics({ topics: [{ topic: op.topic, numPartitions: op.partitions, replicationFactor: 1 }] })
    await admin.disconnect()
  },

  async produce (op) {
    const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, idempotent: !!op.idempotent })
    await producer.connect()
    const messages = op.records.map(r => ({ partition: r.partition, timestamp: String(r.timeMs), key: decode(r.key), value: decode(r.value), headers: headersIn(r.headers) }))
    await producer.send({ topic: op.topic, acks: -1, compression: codecs[op.codec], messages })
    await producer.disconnect()
  },

  async transact (op) {
    const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, idempotent: true, maxInFlightRequests: 1, transactionalId: op.transactionalId })
    await producer.connect()
    const transaction = await producer.transaction()
    const messages = op.records.map(r => ({ partition: r.partition, timestamp: String(r.timeMs), key: decode(r.key), value: decode(r.value), headers: headersIn(r.headers) }))
    await transaction.send({ topic: op.topic, acks: -1, messages })
    await transaction.sendOffsets({ consumerGroupId: op.group, topics: [{ topic: op.topic, partitions: [{ partition: 0, offset: String(op.offset) }] }] })
    await (op.commit ? transaction.commit() : transaction.abort())
    await producer.disconnect()
  },

  // kafkajs reads only as a group: one of its own, sought to the offset.
  async consume (op) {
    const consumer = kafka.consumer({ groupId: `read-${op.topic}-${process.pid}-${Math.random()}`, maxWaitTimeInMs: 200, readUncommitted: !op.committed })
    await consumer.connect()
    await consumer.subscribe({ topic: op.topic, fromBeginning: true })
    const out = []
    await new Promise((resolve, reject) => {
      setTimeout(() => reject(new Error(`${out.length} of ${op.count} records`)), 30000).unref()
      consumer.run({
        autoCommit: false,
        eachMessage: async ({ partition, message }) => {
          if (partition !== op.partition || Number(message.offset) < op.offset || out.length >= op.count) return
          out.push(convert(partition, message))
          if (out.length >= op.count) resolve()
        }
      })
      consumer.seek({ topic: op.topic, partition: op.partition, offset: String(op.offset) })
    })
    await consumer.disconnect()
    return { records: out }
  },

  async join (op) {
    const consumer = kafka.consumer({ groupId: op.group, maxWaitTimeInMs: 200, sessionTimeout: 10000, heartbeatInterval: 500 })
    const member = { consumer, topic: op.topic, assigned: [], got: [], next: new Map() }
    members.set(op.member, member)
    consumer.on(consumer.events.GROUP_JOIN, e => { member.assigned = e.payload.memberAssignment[op.topic] || [] })
    consumer.on(consumer.events.REBALANCING, () => { member.assigned = [] })
    await consumer.connect()
    await consumer.subscribe({ topic: op.topic, fromBeginning: true })
    await consumer.run({ autoCommit: false, eachMessage: async ({ partition, message }) => { member.got.push(convert(partition, message)) } })
  },

  async poll (op) {
    const member = members.get(op.member)
    await sleep(op.waitMs)
    const records = member.got.splice(0)
    for (const r of records) member.next.set(r.partition, r.offset + 1)
    return { records, assigned: member.assigned }
  },

  async commit (op) {
    const member = members.get(op.member)
    await member.consumer.commitOffsets([...member.next].map(([partition, offset]) => ({ topic: member.topic, partition, offset: String(offset) })))
  },

  async leave (op) {
    const member = members.get(op.member)
    members.delete(op.member)
    await member.consumer.disconnect()
  },

  async offsetForTime (op) {
    const admin = kafka.admin()
    await admin.connect()
    const found = await admin.fetchTopicOffsetsByTimestamp(op.topic, op.timeMs)
    await admin.disconnect()
    return { offset: Number(found.find(f => f.partition === op.partition).offset) }
  }
}

async function main () {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const op = JSON.parse(line)
    let reply
    try {
      reply = (await ops[op.op](op)) || {}
    } catch (e) {
      reply = { error: String((e && e.stack) || e) }
    }
    process.stdout.write(JSON.stringify(reply) + '\n')
  }
  process.exit(0)
}

main()
