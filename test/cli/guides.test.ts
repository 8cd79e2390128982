import { mkdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../support/postgres.ts';
import { CLI, call, newBlankPlace, type Place, until } from '../support/service.ts';
import {
  hasTerminal,
  kinds,
  type OnTerminal,
  Session,
  serveOnTerminal,
  steps,
} from '../support/terminal.ts';

const GUIDES = [
  {
    paths: ['README.md', 'docs/guides/first-ten-minutes.md'],
    start: 'npm ci && npm start\n',
    env: {},
  },
  {
    paths: ['docs/guides/support-sees-last-four.md'],
    start: 'npm ci && AUDIT_LOG=audit.log AUDIT_REQUIRED=true npm start\n',
    env: { AUDIT_LOG: 'audit.log', AUDIT_REQUIRED: 'true' },
  },
] as const;

describe.runIf(hasTerminal).each(GUIDES)('$paths', ({ paths, start: expected, env }) => {
  let place: Place;
  let service: OnTerminal;
  beforeAll(async () => {
    place = await newBlankPlace();
    // The folder of a checkout, as far as the guide knows it.
    symlinkSync(dirname(CLI), join(place.folder, 'dist'));
    mkdirSync(join(place.folder, 'home'));
    service = await serveOnTerminal(place, { ...env, OPS_PORT: String(await freePort()) });
  });
  afterAll(async () => {
    await service?.stop();
    place.remove();
  });

  test('go as they say, command by command', async () => {
    const [start, ...others] = paths.flatMap(steps);
    expect(start!.command).toBe(expected);
    expect(kinds(service.output())).toContain(kinds(start!.shown!));
    const session = new Session(
      place.folder,
      { PATH: process.env.PATH!, HOME: join(place.folder, 'home'), STANDIN_URL: service.url },
      { 'http://127.0.0.1:8080': service.url, 'http://127.0.0.1:9464': service.opsUrl! },
    );
    session.learn(start!.shown!, service.output());
    const [apiKey] = /stk_\w{34}/.exec(service.output())!;
    expect(others.length).toBeGreaterThan(7);
    const at = { url: service.url, api_key: apiKey! };
    const takesNumbers = async () => (await call(at, 'tokenize', { a: 1 })).status === 200;
    try {
      for (const { command, shown } of others) {
        const written = await session.run(command);
        if (command.includes('policy apply')) await until(takesNumbers, 'the policy is in force');
        if (shown === undefined) continue;
        expect(kinds(written), command).toBe(kinds(shown));
        session.learn(shown, written);
      }
      // Who calls as the README does gets tokens still.
      const { body } = await call(at, 'tokenize', { email: 'a@b.cc', name: 'Ann Lee' });
      const token = expect.stringMatching(/_tok$/);
      expect(body.data).toEqual({ email: token, name: token });
    } finally {
      await session.end();
    }
  });
});
