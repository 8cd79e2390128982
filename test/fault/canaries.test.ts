import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { FaultProxy } from '../support/fault-proxy.ts';
import { JournalledWriters } from '../support/journal.ts';
import { marked, nameRun, nameWorker } from '../support/leftovers.ts';
import { ownPlace } from '../support/own.ts';
import { type Service, until } from '../support/service.ts';
import { StandIn, tcpServer } from '../support/stand-in.ts';

/** What the checker and the proxy must not let pass: a guard that finds nothing anywhere would be worth nothing. */
type Answers = Record<string, (texts: string[]) => string[]>;

/** A service that answers as these say, after a hundred right answers. */
async function startLiar(lies: Answers): Promise<Service> {
  let n = 0;
  const truth: Answers = {
    tokenize: (values) => values.map((value) => `${value}_tok`),
    detokenize: (tokens) => tokens.map((token) => token.slice(0, -4)),
  };
  const liar = await new StandIn(async (request, response) => {
    const operation = request.url!.split('/').at(-1)!;
    const { texts } = JSON.parse(await text(request)).data;
    const answer = (n++ < 100 ? truth : { ...truth, ...lies })[operation]!;
    response.end(JSON.stringify({ data: { texts: answer(texts) } }));
  }).open();
  onTestFinished(() => liar.stop());
  return { url: liar.url } as Service;
}

let drawn = 0;
test.each<[string, Answers, RegExp]>([
  [
    'another value of the same answer',
    { detokenize: (tokens) => tokens.map((token) => token.slice(0, -4)).toReversed() },
    /^detokenize of/,
  ],
  [
    'another token for a value that has one',
    { tokenize: (values) => values.map((value) => `${value}_${drawn++}_tok`) },
    /^tokenize of/,
  ],
])('the checker finds %s', async (_, lies, finding) => {
  const place = await ownPlace('embedded');
  const liar = await startLiar(lies);
  const writers = new JournalledWriters({ place, nodes: [liar], api_key: 'any' });
  await until(() => writers.wrong.some((one) => finding.test(one)), 'the finding');
  await writers.stop();
  await expect(writers.verify(liar, 'any')).rejects.toThrow();
});

test('what a test leaves running ends before the next file, or with the run, even outside its process tree', async () => {
  const run = process.env.TEST_RUN;
  onTestFinished(() => {
    process.env.TEST_RUN = run;
  });
  /** Has left the session of this process, as a database server does. */
  const start = (env = process.env) => {
    const child = spawn('setsid', ['sleep', '600'], { env, stdio: 'ignore' });
    return once(child, 'exit').then(([, signal]) => signal);
  };
  const ofOthers = spawn('sleep', ['600'], { env: { PATH: process.env.PATH } });
  onTestFinished(() => {
    ofOthers.kill();
  });
  const left = [start(), start({ PATH: process.env.PATH, ...marked() })];
  nameWorker();
  expect(await Promise.all(left)).toEqual(['SIGKILL', 'SIGKILL']);
  const endRun = nameRun();
  nameWorker();
  const last = start();
  endRun();
  expect(await last).toBe('SIGKILL');
  expect([ofOthers.exitCode, ofOthers.signalCode]).toEqual([null, null]);
});

test('the proxy tells replies that came late on a connection that is still there from those on one that is gone', async () => {
  const proxy = await FaultProxy.start(await tcpServer((socket) => socket.pipe(socket)));
  onTestFinished(() => proxy.stop());
  proxy.delayMs = () => 200;
  proxy.lateAfterMs = 100;
  const [patient, impatient] = [connect(proxy.port), connect(proxy.port)];
  for (const socket of [patient, impatient]) socket.write('question');
  await until(() => proxy.lateReceived === 2, 'both replies');
  expect(proxy.late).toBe(2);
  for (const socket of [patient, impatient]) socket.write('question');
  const { connections } = proxy;
  // Held by now, and not sent yet.
  await until(() => proxy.held === 2, 'both replies');
  impatient.destroy();
  await until(() => proxy.connections === connections - 1, 'the end of one');
  await until(() => proxy.held === 0, 'the reply to the other');
  patient.destroy();
  expect([proxy.late, proxy.lateReceived]).toEqual([4, 3]);
});
