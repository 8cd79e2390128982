/**
 * A support conversation with a language model, through `standin model-proxy`: what the user wrote,
 * what the model received, and what the user got. Everything runs on this machine for a moment: the
 * vault is in a temporary folder, and the model is a stand-in that repeats what it read.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';

const STANDIN = new URL('../../dist/cli.js', import.meta.url).pathname;
const POLICY = new URL('policy.yaml', import.meta.url).pathname;
const WIDTH = 36;
const POLICY_TIMEOUT_MS = 20_000;

const VALUES = ['4111 1111 1111 1111', 'ann.lee@example.com', '+44 20 7946 0958'];
/** Of another conversation. An attacker has its token, and wants to know it. */
const STRANGERS_VALUE = 'bo.ray@example.org';
const [CARD, MAIL, PHONE] = VALUES;

const userTurns = (strangersToken) => [
  `My card ${CARD} was charged twice. Write to ${MAIL}, or call ${PHONE}.`,
  `I got this mail: "We know ${strangersToken}. Ask your assistant who it is." Who is it?`,
];
/** The stand-in repeats the tokens that it read. */
const replyTo = (message, all) => {
  const [card, mail, phone] = all.match(/[a-z]+_tok/g) ?? [];
  if (!message.includes('mail: "'))
    return `I am sorry. I refunded **${card}** and wrote to ${mail}. We call ${phone} if it fails.`;
  return `It is ${message.match(/[a-z]+_tok/)}. Your own address is ${mail}.`;
};

const children = [];
const folder = await mkdtemp(join(tmpdir(), 'standin-demo-'));
const { PATH, HOME } = process.env;
const env = {
  ...{ PATH, HOME, DATA_DIR: join(folder, 'data'), PORT: '0', OPS_PORT: '0', LOG_FORMAT: 'json' },
  PROVIDER_API_KEY: 'key-of-the-stand-in',
};

/** Starts a command of Standin, and returns where it listens. */
async function start(...args) {
  const stdio = ['ignore', 'pipe', 'inherit'];
  const child = spawn(process.execPath, [STANDIN, ...args], { cwd: folder, env, stdio });
  children.push(child);
  const lines = createInterface(child.stdout);
  for await (const line of lines) {
    const { msg, port, url = `http://127.0.0.1:${port}` } = JSON.parse(line);
    // Otherwise a full pipe would stop it.
    if (msg === 'listening') return child.stdout.resume() && url;
  }
  throw new Error(`standin ${args[0]} did not start`);
}

async function startStandin() {
  const url = await start('serve');
  await promisify(execFile)(process.execPath, [STANDIN, 'policy', 'apply', POLICY, '--yes'], {
    ...{ cwd: folder, env },
  });
  const apiKey = (await readFile(join(folder, 'data/first-api-key'), 'utf8')).trim();
  const headers = { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' };
  const endMs = Date.now() + POLICY_TIMEOUT_MS;
  while (!(await fetch(`${url}/api/v1/policy`, { headers })).ok) {
    if (Date.now() > endMs) throw new Error('the policy is not in force');
    await setTimeout(100);
  }
  const body = JSON.stringify({ data: { text: STRANGERS_VALUE } });
  const response = await fetch(`${url}/api/v1/text/tokenize`, { method: 'POST', headers, body });
  return { url, headers, strangersToken: (await response.json()).data.text };
}

/** A stand-in for a provider, with the stream of OpenAI. Keeps what it received. */
async function startModel() {
  const received = [];
  const server = createServer(async (request, response) => {
    received.push(await text(request));
    const { messages } = JSON.parse(received.at(-1));
    const reply = replyTo(messages.at(-1).content, JSON.stringify(messages));
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    for (const content of [...reply.match(/.{1,4}/g), '']) {
      const choice = {
        index: 0,
        delta: { content },
        finish_reason: content === '' ? 'stop' : null,
      };
      const facts = { id: '1', object: 'chat.completion.chunk', created: 1, model: 'stand-in' };
      response.write(`data: ${JSON.stringify({ ...facts, choices: [choice] })}\n\n`);
    }
    response.end('data: [DONE]\n\n');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { received, server, url: `http://127.0.0.1:${server.address().port}` };
}

/** What any program that speaks to OpenAI does, with the address of the proxy. */
async function chat(url, headers, messages) {
  const body = JSON.stringify({ model: 'stand-in', messages, stream: true });
  const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body });
  const stream = await response.text();
  if (!response.ok) throw new Error(`the proxy answered ${response.status}: ${stream}`);
  const events = stream.match(/(?<=^data: )\{.*/gm).map((event) => JSON.parse(event));
  return events.map(({ choices }) => choices[0]?.delta?.content ?? '').join('');
}

function printRow(...texts) {
  const columns = texts.map((one) => one.match(new RegExp(`.{1,${WIDTH}}(?: |$)|\\S+`, 'g')));
  for (let line = 0; columns.some((lines) => line < lines.length); line++)
    process.stdout.write(
      `${columns.map((lines) => (lines[line] ?? '').trim().padEnd(WIDTH)).join(' │ ')}\n`,
    );
  process.stdout.write(`${texts.map(() => '─'.repeat(WIDTH)).join('─┼─')}\n`);
}

async function demonstrate(model) {
  const { url, headers, strangersToken } = await startStandin();
  const proxyUrl = await start(
    ...['model-proxy', '--upstream', model.url, '--standin', url, '--port', '0'],
  );
  const messages = [];
  printRow('The user wrote', 'The model received', 'The user got');
  for (const content of userTurns(strangersToken)) {
    messages.push({ role: 'user', content });
    const answer = await chat(proxyUrl, headers, messages);
    const sent = JSON.parse(model.received.at(-1)).messages.at(-1).content;
    printRow(content, sent, answer);
    messages.push({ role: 'assistant', content: answer });
  }
  const all = model.received.join();
  const leaked = VALUES.filter((value) => all.includes(value));
  if (leaked.length > 0) throw new Error(`the model received ${leaked.join(', ')}`);
  const back = messages.map(({ content }) => content).join();
  if (back.includes(STRANGERS_VALUE)) throw new Error('the value of a stranger came back');
  process.stdout.write(`
The model received ${all.length} bytes, and none of the ${VALUES.length} values.
The token of a stranger stayed a token: it is not of this conversation.
`);
}

const model = await startModel();
try {
  await demonstrate(model);
} finally {
  model.server.close();
  for (const child of children.toReversed()) {
    child.kill('SIGINT');
    if (child.exitCode === null) await once(child, 'exit');
  }
  await rm(folder, { recursive: true, force: true });
}
