// BullMQ, as its users run it, in the Node environment whose folder is the first argument.
//
// node bullmq.mjs FOLDER throughput PORT COUNT SECONDS KEPT CONCURRENCY...
//   addBulk of COUNT in batches of 1,000, then a worker over all of them for each concurrency; 200 tasks
//   that add one at a time. KEPT: how many finished jobs stay. Prints figures as JSON.
// node bullmq.mjs FOLDER light PORT COUNT RATE
//   A worker in this process, another process that submits; prints latencies in milliseconds as JSON.
// node bullmq.mjs FOLDER memory PORT COUNT
//   Bytes of Redis a waiting job with an id of its own, which is what deduplicates.
import { createRequire } from 'node:module';
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const [folder, part, port, ...rest] = process.argv.slice(2);
const load = createRequire(`${folder}/`);
const { Queue, Worker } = load('bullmq');
const Redis = load('ioredis');
const connection = { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null };
const payload = { text: 'a'.repeat(1013) };
const meter = new Redis(Number(port), '127.0.0.1');
const now = () => Number(process.hrtime.bigint()) / 1e6;

async function open(name, kept) {
  const defaultJobOptions = { removeOnComplete: kept === 0 ? true : { count: kept } };
  const queue = new Queue(name, { connection, defaultJobOptions });
  await queue.waitUntilReady();
  return queue;
}

async function info(section, ...fields) {
  const text = await meter.info(section);
  return fields.map((field) => Number(text.match(new RegExp(`^${field}:(.*)\r$`, 'm'))[1]))
    .reduce((sum, value) => sum + value, 0);
}

const processor = () => info('cpu', 'used_cpu_user', 'used_cpu_sys');

async function metered(count, work) {
  const [cpu, began] = [await processor(), now()];
  await work();
  const passed = now() - began;
  return { rate: (1000 * count) / passed, cpu: (1e6 * (await processor() - cpu)) / count };
}

async function addBulk(queue, count, options = () => ({})) {
  for (let first = 0; first < count; first += 1000) {
    const batch = Array.from({ length: Math.min(1000, count - first) },
      (_, index) => ({ name: 'job', data: payload, opts: options(first + index) }));
    await queue.addBulk(batch);
  }
}

async function work(queue, count, concurrency) {
  let done = 0;
  let ended;
  const all = new Promise((resolve) => { ended = resolve; });
  const worker = new Worker(queue.name, async () => {}, { connection, concurrency });
  worker.on('completed', () => { done += 1; if (done === count) ended(); });
  await all;
  return worker;
}

async function throughput(count, seconds, kept, concurrencies) {
  const found = { bulk: 0, bulkCpu: Infinity, process: 0, processCpu: Infinity };
  for (const concurrency of concurrencies) {
    const queue = await open(`bench-${concurrency}`, kept);
    const added = await metered(count, () => addBulk(queue, count));
    let worker;
    const processed = await metered(count, async () => { worker = await work(queue, count, concurrency); });
    await worker.close();
    await queue.obliterate({ force: true });
    await queue.close();
    found.bulk = Math.max(found.bulk, added.rate);
    found.bulkCpu = Math.min(found.bulkCpu, added.cpu);
    found.process = Math.max(found.process, processed.rate);
    found.processCpu = Math.min(found.processCpu, processed.cpu);
  }
  return { ...found, singly: await addSingly(seconds, kept) };
}

async function addSingly(seconds, kept) {
  const queue = await open('bench-singly', kept);
  const began = now();
  let count = 0;
  const submit = async () => {
    while (now() - began < 1000 * seconds) {
      await queue.add('job', payload);
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: 200 }, submit));
  const rate = (1000 * count) / (now() - began);
  await queue.close();
  return rate;
}

async function light(count, rate) {
  const latencies = [];
  const queue = await open('light', 0);
  let ended;
  const all = new Promise((resolve) => { ended = resolve; });
  const worker = new Worker(queue.name, async (job) => {
    latencies.push(now() - job.data.sent);
    if (latencies.length === count) ended();
  }, { connection, concurrency: 100 });
  await worker.waitUntilReady();
  await new Promise((resolve) => { setTimeout(resolve, 1000); });
  const submitter = spawn(process.execPath, [fileURLToPath(import.meta.url), folder, 'pace', port, count, rate]);
  await all;
  await new Promise((resolve) => { submitter.on('exit', resolve); });
  await worker.close();
  await queue.close();
  return { latencies };
}

async function pace(count, rate) {
  const queue = await open('light', 0);
  const adding = [];
  let due = now();
  for (let number = 0; number < count; number += 1) {
    due += 1000 / rate;
    const pause = Math.max(0, due - now());
    await new Promise((resolve) => { setTimeout(resolve, pause); });
    adding.push(queue.add('job', { ...payload, sent: now() }));
  }
  await Promise.all(adding);
  await queue.close();
  return {};
}

async function memory(count) {
  const queue = await open('memory', 0);
  await addBulk(queue, 1000, (number) => ({ jobId: `warm-${number}` }));
  const empty = await info('memory', 'used_memory');
  await addBulk(queue, count, (number) => ({ jobId: `order-${number}` }));
  const bytes = (await info('memory', 'used_memory') - empty) / count;
  await queue.close();
  return { bytes };
}

const parts = {
  throughput: ([count, seconds, kept, ...concurrencies]) => throughput(
    Number(count), Number(seconds), Number(kept), concurrencies.map(Number)),
  light: ([count, rate]) => light(Number(count), Number(rate)),
  pace: ([count, rate]) => pace(Number(count), Number(rate)),
  memory: ([count]) => memory(Number(count)),
};
console.log(JSON.stringify(await parts[part](rest)));
await meter.quit();
