import { beforeAll, describe, expect, inject, test } from 'vitest';
import { blocksUnder } from '../support/docs.ts';
import { createDatabase, postgresBin, query } from '../support/postgres.ts';
import { served } from '../support/served.ts';
import {
  call,
  kinds,
  makeRole,
  newPlace,
  runJson,
  startService,
  typed,
} from '../support/service.ts';

const [restore, count, destroy] = blocksUnder('docs/operating/upgrade.md', 'Uninstall');
const EMAILS = ['ann@example.com', 'a "quoted", odd\none@example.org', '', 'plain_toke', null];

describe.skipIf(postgresBin === undefined || !kinds().includes('server'))('uninstall', () => {
  const service = served(async () => startService(await newPlace('server')));
  let customersUrl: string;
  beforeAll(async () => {
    customersUrl = await createDatabase(inject('serverUrl'));
    await query(customersUrl, 'create table customers (id bigint primary key, email text)');
    const tokenized = EMAILS.slice(0, 2) as string[];
    const { body } = await call(service, 'tokenize', { emails: tokenized });
    const stored = [...body.data.emails, ...EMAILS.slice(2)];
    const insert = 'insert into customers select * from unnest($1::bigint[], $2::text[])';
    await query(customersUrl, insert, [stored.map((_, i) => i), stored]);
  });

  test('the commands of upgrade.md give a column its values back', async () => {
    expect(await query(customersUrl, count!)).toEqual([{ count: '2' }]);
    await typed(service, restore!, {}, customersUrl);
    const rows = await query(customersUrl, 'select email from customers order by id');
    expect(rows.map(({ email }) => email)).toEqual(EMAILS);
    expect(await query(customersUrl, count!)).toEqual([{ count: '0' }]);
  });

  test('its statements leave nothing of the vault', async () => {
    const { place } = service;
    const { name } = await makeRole(place);
    await runJson(place, 'migrate', '--grant-to', name);
    await service.stop();
    const url = place.env.DATABASE_URL!;
    for (const statement of destroy!.replaceAll('standin_app', name).split(/;\n/).filter(Boolean))
      await query(url, statement);
    const left = `select (select count(*) from pg_namespace where nspname = 'standin')
      + (select count(*) from pg_roles where rolname = '${name}') as left`;
    expect(await query(url, left)).toEqual([{ left: '0' }]);
  });
});
