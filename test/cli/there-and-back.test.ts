import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  makeVault,
  newPlace,
  type Place,
  runJson,
  startService,
  usualKinds,
} from '../support/service.ts';
import { detokenizeAll, tokenizeAll } from '../support/vault.ts';

describe.each(usualKinds())('an export of short values, on %s', (kind) => {
  let place: Place;
  let other: Place;
  const values = Array.from({ length: 10_000 }, (_, i) => String(i).padStart(4, '0'));
  beforeAll(async () => {
    [place, other] = [await newPlace(kind), await newPlace(kind)];
    await makeVault(place);
    await makeVault(other);
  });
  afterAll(() => {
    place.remove();
    other.remove();
  });

  test('F43: goes whole into an empty vault, after a dry run that says so', async () => {
    const service = await startService(place);
    const tokens = await tokenizeAll(service, values);
    await service.stop();
    const folder = join(place.folder, 'pairs');
    await runJson(place, 'export', '-o', folder, '--plain');
    const file = join(folder, 'pairs-0001.ndjson');
    const rejects = (name: string) => ['--rejects', join(other.folder, name)];
    const counts = { rows: 10_000, rejected: 0, imported: 10_000, detokenize_only: 0 };
    const dry = await runJson(other, 'import', file, '--dry-run', ...rejects('dry.csv'));
    expect(dry).toMatchObject(counts);
    expect(await runJson(other, 'import', file, ...rejects('run.csv'))).toMatchObject(counts);
    const there = await startService(other);
    try {
      expect(await detokenizeAll(there, tokens)).toEqual(values);
      expect(await tokenizeAll(there, values)).toEqual(tokens);
    } finally {
      await there.stop();
    }
  });
});
