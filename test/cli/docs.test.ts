import { describe, expect, test } from 'vitest';
import { shapeOf } from '../../src/shape/shape.ts';
import { blocks, codePieces, documents, readText, table } from '../support/docs.ts';
import { runCommand } from '../support/in-process.ts';
import { served } from '../support/served.ts';
import { call, kinds, leastPrivilegePlace, startService, usualPlace } from '../support/service.ts';
import { sql } from '../support/vault.ts';

const service = served(async () => startService(await usualPlace()));

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
      help.set(
        command,
        runCommand([...command.split(' ').filter(Boolean), '--help'], service.place),
      );
    const { code, stdout } = await help.get(command)!;
    expect({ line, code }).toEqual({ line, code: 0 });
    if (command !== '') expect(stdout).toContain(`Usage: standin ${command}`);
    for (const [option] of line.matchAll(/--[a-z-]+/g)) expect(stdout, line).toContain(option);
  }
});

test('the schema in record-format.md is that of the database', async () => {
  const text =
    "select table_name, array_agg(column_name::text order by column_name) as columns from information_schema.columns where table_schema = 'standin' group by 1";
  const found = (await sql(service.place, text)).map((row) => [
    row.table_name,
    row.columns.toSorted(),
  ]);
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
