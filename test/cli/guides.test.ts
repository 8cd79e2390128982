import { mkdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { freePort } from '../support/postgres.ts';
import { CLI, newBlankPlace, type Place } from '../support/service.ts';
import {
  hasTerminal,
  kinds,
  type OnTerminal,
  Session,
  serveOnTerminal,
  steps,
} from '../support/terminal.ts';

let place: Place;
let service: OnTerminal;
beforeAll(async () => {
  place = await newBlankPlace();
  // The folder of a checkout, as far as the guide knows it.
  symlinkSync(dirname(CLI), join(place.folder, 'dist'));
  mkdirSync(join(place.folder, 'home'));
  if (hasTerminal) service = await serveOnTerminal(place, { OPS_PORT: String(await freePort()) });
});
afterAll(async () => {
  if (hasTerminal) await service.stop();
  place.remove();
});

test.runIf(hasTerminal)(
  'the first ten minutes go as the guide says, command by command',
  async () => {
    const [start, ...others] = steps('docs/guides/first-ten-minutes.md');
    expect(start!.command).toBe('npm ci && npm start\n');
    expect(kinds(service.output())).toContain(kinds(start!.shown!));
    const session = new Session(
      place.folder,
      { PATH: process.env.PATH!, HOME: join(place.folder, 'home'), STANDIN_URL: service.url },
      { 'http://127.0.0.1:8080': service.url, 'http://127.0.0.1:9464': service.opsUrl! },
    );
    session.learn(start!.shown!, service.output());
    expect(others.length).toBeGreaterThan(8);
    try {
      for (const { command, shown } of others) {
        const written = await session.run(command);
        if (shown === undefined) continue;
        expect(kinds(written), command).toBe(kinds(shown));
        session.learn(shown, written);
      }
    } finally {
      await session.end();
    }
  },
);
