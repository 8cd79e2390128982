import { describe, expect, test } from 'vitest';
import { databaseHosts } from '../../src/store/hosts.ts';

function urls(url: string): string[] | undefined {
  return databaseHosts(url)?.map((host) => host.url);
}

test.each([
  ...['postgres://db/x', 'postgresql://u:p@db:5433/x?sslmode=verify-full', 'POSTGRES://db'],
  ...['postgres://[::1]:5433/x', 'postgres:///x?host=/run/postgresql'],
  ...['postgres://%2Frun%2Fpostgresql/x', 'postgres://db/x?target_session_attrs=primary'],
  'postgres://u,v:p,w@db/a,b?application_name=c,d#e,f',
])('a URL of one host is left as it is: %s', (url) => {
  expect(urls(url)).toEqual([url]);
});

test('modes of TLS that pg takes for verify-full are written so, or it warns of them', () => {
  for (const mode of ['prefer', 'require', 'verify-ca']) {
    expect(urls(`postgres://u:sslmode=require@db/x?a=b&sslmode=${mode}&c=d`)).toEqual([
      'postgres://u:sslmode=require@db/x?a=b&sslmode=verify-full&c=d',
    ]);
    expect(urls(`postgres://a,b/x?sslmode=${mode}`)).toEqual([
      'postgres://a/x?sslmode=verify-full',
      'postgres://b/x?sslmode=verify-full',
    ]);
  }
  for (const left of ['disable', 'no-verify', 'require&uselibpqcompat=true'])
    expect(urls(`postgres://db/x?sslmode=${left}`)).toEqual([`postgres://db/x?sslmode=${left}`]);
});

describe('a URL of several hosts is as many URLs', () => {
  test('each with the user, the database and the parameters', () => {
    expect(urls('postgres://u:p@a:1,b:65535/db?sslmode=disable&x=y,z')).toEqual([
      'postgres://u:p@a:1/db?sslmode=disable&x=y,z',
      'postgres://u:p@b:65535/db?sslmode=disable&x=y,z',
    ]);
  });

  test('a port that is missing or empty is 5432', () => {
    expect(databaseHosts('postgresql://a,b:,c:5433')).toEqual([
      { name: 'a:5432', url: 'postgresql://a' },
      { name: 'b:5432', url: 'postgresql://b:' },
      { name: 'c:5433', url: 'postgresql://c:5433' },
    ]);
  });

  test('IPv6 addresses are in brackets', () => {
    expect(databaseHosts('postgres://u@[::1],[fe80::1:2]:5433,10.0.0.1/db')).toEqual([
      { name: '[::1]:5432', url: 'postgres://u@[::1]/db' },
      { name: '[fe80::1:2]:5433', url: 'postgres://u@[fe80::1:2]:5433/db' },
      { name: '10.0.0.1:5432', url: 'postgres://u@10.0.0.1/db' },
    ]);
  });

  test('a password may have any of the marks in it, and is in no name', () => {
    const hosts = databaseHosts('postgres://u:hunter2,@:[x]@a,b/db')!;
    expect(hosts.map((host) => host.url)).toEqual([
      'postgres://u:hunter2,@:[x]@a/db',
      'postgres://u:hunter2,@:[x]@b/db',
    ]);
    expect(hosts.map((host) => host.name)).toEqual(['a:5432', 'b:5432']);
  });

  test('sixteen, not more', () => {
    const list = (count: number) => Array.from({ length: count }, (_, i) => `h${i}`).join();
    expect(urls(`postgres://${list(16)}/db`)).toHaveLength(16);
    expect(urls(`postgres://${list(17)}/db`)).toBeUndefined();
  });

  test.each(['read-write', 'primary', 'any'])(
    'target_session_attrs=%s is the primary',
    (wanted) => {
      expect(urls(`postgres://a,b/db?target_session_attrs=${wanted}`)).toHaveLength(2);
    },
  );
});

const NO_HOSTS = [
  ...',/db a,/db ,b/db a,,b/db u@/a@,/db a:0,b/db a:65536,b/db a:-1,b/db a:5432x,b/db'.split(' '),
  ...'a:1:2,b/db ::1,b/db [::1,b/db [::1]x,b/db [gg::1],b/db [a],b/db a<b,c/db'.split(' '),
  ...['a, b/db', 'a\n,b/db', 'a\0,b/db', 'a,b\\c/db', 'a,b/db?host=c', 'a,b/db?port=5433'],
  ...['a,b/db?target_session_attrs=standby', 'a/db?target_session_attrs=prefer-standby'],
  'a,b/db?target_session_attrs=primary&target_session_attrs=read-only',
  'a/db?target_session_attrs=',
];

test.each(['', ',', 'a,b', 'mysql://a,b/db', ...NO_HOSTS.map((tail) => `postgres://${tail}`)])(
  'no such URL: %j',
  (url) => {
    expect(databaseHosts(url)).toBeUndefined();
  },
);
