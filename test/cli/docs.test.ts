import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { shapeOf } from '../../src/shape/shape.ts';
import { blocks, codePieces, documents, readText, table } from '../support/docs.ts';
import { send } from '../support/http.ts';
import { runCommand } from '../support/in-process.ts';
import { Licenser } from '../support/keys.ts';
import { freePort } from '../support/postgres.ts';
import {
  call,
  kinds,
  leastPrivilegePlace,
  type Place,
  runJson,
  type Service,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';
import { Authority, hasOpenssl } from '../support/tls.ts';
import { sql } from '../support/vault.ts';

let place: Place;
let service: Service;

beforeAll(async () => {
  place = await usualPlace();
  const licenser = new Licenser(place.folder);
  await licenser.issue(90);
  service = await startService(place, {
    ...licenser.env,
    OPS_PORT: String(await freePort()),
    // Nobody listens there: their metrics are there all the same.
    REDIS_URL: `redis://127.0.0.1:${await freePort()}`,
    JWT_ISSUER: `http://127.0.0.1:${await freePort()}`,
    JWT_AUDIENCE: 'standin',
  });
});
afterAll(async () => {
  await service.stop();
  place.remove();
});

/** Whether a token could stand for the value: its shape, drawn, and the suffix. */
function expectTokenOf(value: string, token: string): void {
  const pattern = shapeOf(value).replaceAll(/[^a0]/g, '\\$&').replaceAll('a', '[a-z]');
  expect(token).toMatch(new RegExp(`^${pattern.replaceAll('0', '\\d')}_tok$`));
}

test('the README names the file of the first API key where there is no terminal', () => {
  const [file] = /data\/first-api-key/.exec(readText('README.md'))!;
  expect(service.output()).toContain(`${file}"`);
});

test('commands that documents name exist, with the options that they are given', async () => {
  const help = new Map<string, Promise<{ code: unknown; stdout: string }>>();
  const lines = documents()
    // What is HMACed there begins with the word, too.
    .filter((path) => path !== 'docs/record-format.md')
    .flatMap(codePieces)
    .map((piece) => /^(?:npm run -s standin -- |standin )(?:help )?(.*)/.exec(piece)?.[1])
    .filter((line) => line !== undefined);
  expect(lines.length).toBeGreaterThan(15);
  for (const line of lines) {
    // A word with a dot is a file, one with an @ a value.
    const command = /^[a-z-]*(?: [a-z]+)?(?![a-z./@])/.exec(line.replace(/ ?--.*/, ''))![0];
    if (!help.has(command))
      help.set(command, runCommand([...command.split(' ').filter(Boolean), '--help'], place));
    const { code, stdout } = await help.get(command)!;
    expect({ line, code }).toEqual({ line, code: 0 });
    if (command !== '') expect(stdout).toContain(`Usage: standin ${command}`);
    for (const [option] of line.matchAll(/--[a-z-]+/g)) expect(stdout, line).toContain(option);
  }
});

/** Name, labels and help of our metrics that have a value. */
async function scrape({ opsUrl }: Service): Promise<[string, Set<string>, string][]> {
  const text = await (await fetch(`${opsUrl}/metrics`)).text();
  return [...text.matchAll(/^# HELP (standin_\w+) (.*)\n# TYPE .*\n(.*)/gm)].map(
    ([, name, help, sample]) => {
      const labels = [...sample!.matchAll(/(\w+)="/g)].map((match) => match[1]!);
      return [name!, new Set(labels.filter((label) => label !== 'le')), help!];
    },
  );
}

/** Metrics that only a service with TLS has, after a caller without. */
async function scrapeTls(): Promise<Awaited<ReturnType<typeof scrape>>> {
  const tlsPlace = await usualPlace();
  const { cert, key } = new Authority(tlsPlace.folder, 'authority').issue('DNS:localhost');
  const secured = await startService(tlsPlace, {
    OPS_PORT: String(await freePort()),
    TLS_CERT_FILE: cert,
    TLS_KEY_FILE: key,
  });
  await expect(fetch(secured.url.replace('https', 'http'))).rejects.toThrow();
  const metrics = await scrape(secured);
  await secured.stop();
  tlsPlace.remove();
  return metrics.filter(([name]) => name.startsWith('standin_tls_'));
}

test('the schema in record-format.md is that of the database', async () => {
  const text =
    "select table_name, array_agg(column_name::text order by column_name) as columns from information_schema.columns where table_schema = 'standin' group by 1";
  const found = (await sql(place, text)).map((row) => [row.table_name, row.columns.toSorted()]);
  const rows = table('docs/record-format.md', ['Table', 'Columns']);
  const written = rows.map(([name, cell]) => {
    const [listed] = cell!.split(';');
    return [name, [...listed!.matchAll(/`(\w+)`/g)].map((match) => match[1]!).toSorted()];
  });
  expect(Object.fromEntries(written)).toEqual(Object.fromEntries(found));
});

test('the example of nested data in api.md is what the service does', async () => {
  const [sent, shown] = blocks('docs/api.md', 'json').map((text) => JSON.parse(text));
  const { body } = await call(service, 'tokenize', sent.data);
  for (const { data } of [body, shown]) {
    const { emails, iban } = sent.data.customer;
    expectTokenOf(emails[0], data.customer.emails[0]);
    expectTokenOf(emails[1], data.customer.emails[1]);
    expectTokenOf(iban, data.customer.iban);
  }
  expect(Object.keys(body)).toEqual(Object.keys(shown));
});

test('messages of a 400 that api.md shows are those of the service', async () => {
  const shown = table('docs/api.md', ['Status', 'Example']).map(([, example]) => example!);
  const answers = await Promise.all([
    call(service, 'tokenize', { customer: { emails: ['ann@example.com', 7] } }),
    call(service, 'detokenize', { a: 'nobody@knows.me_tok' }),
    call(service, 'tokenize', undefined),
  ]);
  for (const { body } of answers) expect(shown).toContain(JSON.stringify(body));
});

describe.runIf(kinds().includes('server'))('operating.md', () => {
  test('gives the role of the service rights that are enough to serve, and takes what all have', async () => {
    const server = await leastPrivilegePlace();
    const url = new URL(server.service!.env.DATABASE_URL!);
    const [taken] = blocks('docs/operating.md', 'sql');
    const database = `database ${url.pathname.slice(1)}`;
    const own = taken!.replaceAll('standin_app', url.username);
    await sql(server, own.replaceAll('database vault', database));
    const limited = await startService(server);
    const tokenized = await call(limited, 'tokenize', { a: 'Ann' });
    const restored = await call(limited, 'detokenize', tokenized.body.data);
    expect(restored.body.data).toEqual({ a: 'Ann' });
    await limited.stop();
    const asService = { ...server, env: server.service!.env };
    for (const refused of ['delete from standin.records', 'create temporary table a (b text)'])
      await expect(sql(asService, refused)).rejects.toThrow('permission denied');
    server.remove();
  });
});

test('no document names a port, a path or a key of the machine it was written on', () => {
  for (const path of documents()) expect(readText(path)).not.toMatch(/\/tmp\/|\/root\/|\/home\//);
});

// The last one: its policy stays.
test('the table of metrics is what a scrape gives', async () => {
  const policy = join(place.folder, 'policy.yaml');
  writeFileSync(
    policy,
    'version: 1\nfields: { a: text }\nelsewhere: tokenize\nkinds: { mail: { shape: word } }\ndetect: { email: mail }\n',
  );
  await runJson(place, 'policy', 'apply', policy, '--yes');
  const tokenized = () => call(service, 'tokenize', { a: 'Ann' });
  const isInForce = async () => (await tokenized()).headers.has('standin-strings');
  await until(isInForce, 'the policy is in force');
  await call(service, 'detokenize', (await tokenized()).body.data);
  await send(service, '/api/v1/text/tokenize', '{"data":{"text":"ann@example.com"}}');
  const inClear = (await scrape(service)).filter(([name]) => !name.startsWith('standin_tls_'));
  const scraped = [...inClear, ...(hasOpenssl ? await scrapeTls() : [])];
  const written = table('docs/operating.md', ['Metric', 'Meaning'])
    .filter(([name]) => hasOpenssl || !name!.startsWith('standin_tls_'))
    .map(([metric, meaning]) => {
      const [name, ...labels] = metric!.match(/\w+/g)!;
      return [name, new Set(labels), meaning!] as const;
    });
  const byName = ([a]: readonly [string, ...unknown[]], [b]: readonly [string, ...unknown[]]) =>
    a < b ? -1 : 1;
  expect(written.toSorted(byName)).toEqual(scraped.toSorted(byName));
});
