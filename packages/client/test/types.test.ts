import { describe, expect, expectTypeOf, test } from 'vitest';
import { type Fetch, type FieldOf, Standin } from '../src/index.ts';

/** Echoes the values: this file tests what the compiler infers. */
const echo: Fetch = async (_, { body = '' }) => ({
  status: 200,
  headers: { get: () => null },
  text: async () => body,
});
const OPTIONS = {
  ...{ url: 'http://127.0.0.1:8080', apiKey: 'stk_0123456789ABCDEFGHIJKLMNOPQR1KnaxG' },
  fetch: echo,
};
const client = new Standin(OPTIONS);

interface Customer {
  readonly email: string;
  phone?: string;
  readonly tags: readonly string[];
  address: { lines: [string, string] };
}
const customer: Customer = { email: 'a', tags: ['x'], address: { lines: ['b', 'c'] } };
type Json = string | Json[] | { [name: string]: Json };
interface Reply {
  text: string;
  replies: Reply[];
}
interface Member extends Reply {
  age: number;
}
type Tree = { [name: string]: string | Tree | Tree[] };

describe('the answer has the type of the question', () => {
  test('literals become strings', async () => {
    const answer = await client.tokenize({ email: 'ann@example.com', tags: ['x'] });
    expectTypeOf(answer).toEqualTypeOf<{ email: string; tags: string[] }>();
    const strict = await client.tokenize({ email: 'ann@example.com', tags: ['x'] } as const);
    type Strict = { readonly email: string; readonly tags: readonly [string] };
    expectTypeOf(strict).toEqualTypeOf<Strict>();
    expect(answer).toEqual(strict);
  });

  test('interfaces, lists, tuples, what is optional, what has itself inside, any', async () => {
    const answer = await client.detokenize(customer);
    expectTypeOf(answer).toEqualTypeOf<Customer>();
    const list: readonly Customer[] = [customer];
    expectTypeOf(await client.tokenize(list)).toEqualTypeOf<readonly Customer[]>();
    const tree: Tree = { a: { b: [{ c: 'd' }] } };
    expectTypeOf(await client.tokenize(tree)).toEqualTypeOf<Tree>();
    const json: Exclude<Json, string> = [{ a: ['b'] }];
    expectTypeOf(await client.tokenize(json)).toExtend<Json>();
    const reply: Reply = { text: 'a', replies: [{ text: 'b', replies: [] }] };
    expectTypeOf(await client.tokenize(reply)).toEqualTypeOf<Reply>();
    const body: any = { a: 'b' };
    expectTypeOf(await client.tokenize(body)).toBeAny();
    expectTypeOf(client.tokenizeValues(['a'])).resolves.toEqualTypeOf<string[]>();
    expect(answer).toEqual(customer);
  });
});

test('what is not of strings does not compile, and is refused', async () => {
  const refused: Promise<unknown>[] = [
    // @ts-expect-error
    client.tokenize({ a: [{ isMember: true }] }),
    // @ts-expect-error
    client.tokenize({ born: new Date(0) }),
    // @ts-expect-error
    client.tokenize({ phone: null }),
    // @ts-expect-error
    client.tokenize({ a: () => 'b' }),
    // @ts-expect-error
    client.tokenize('ann@example.com'),
    // @ts-expect-error
    client.tokenize({ a: 1 } as { a: string | number }),
    // @ts-expect-error
    client.tokenize({ a: 1 } as Record<string, unknown>),
    // @ts-expect-error
    client.tokenize({ text: 'a', replies: [], age: 1 } as Member),
    // @ts-expect-error
    client.detokenize([1]),
    // @ts-expect-error
    client.tokenizeValues(['a', 1]),
  ];
  for (const promise of refused) await expect(promise).rejects.toThrow();
});

interface Order {
  id: number;
  to: string;
  note?: string | null;
  lines: { sku: string; count: number }[];
}
interface Shopper {
  id: number;
  email: string;
  phone: string | null;
  born: Date;
  'full name': string;
  address?: { city: string; tags: readonly string[] };
  orders: Order[];
  friend: Shopper | null;
}
const shopper: Shopper = {
  ...{ id: 7, email: 'a', phone: null, born: new Date(0), 'full name': 'b', friend: null },
  orders: [{ id: 1, to: 'c', lines: [{ sku: 'd', count: 1 }] }],
};

describe('fields', () => {
  test('are paths to strings, and the answer has the type of the record', async () => {
    const own = ['email', 'phone', '["full name"]', 'address.tags[*]?', 'friend.email'] as const;
    const answer = await client.tokenize(shopper, { fields: own });
    expectTypeOf(answer).toEqualTypeOf<Shopper>();
    expect(answer).toEqual(shopper);
    const fields = ['orders[*].to', 'orders[*].note?', 'orders[0].lines[*].sku?'] as const;
    expectTypeOf(await client.detokenize(shopper, { fields })).toEqualTypeOf<Shopper>();
    const list = await client.tokenize([shopper], { fields: ['email'], timeoutMs: 500 });
    expectTypeOf(list).toEqualTypeOf<Shopper[]>();
    const any: any = { a: ['b'] };
    expectTypeOf(await client.tokenize(any, { fields: ['a[*]'] })).toBeAny();
    const rows: Record<string, string>[] = [{ a: 'b' }];
    expect(await client.tokenize(rows, { fields: ['a'] })).toEqual(rows);
    expectTypeOf<FieldOf<Order>>().toEqualTypeOf<
      'to' | 'note?' | 'lines[*].sku' | `lines[${number}].sku?`
    >();
  });

  test('that lead to no string, or may be missing without saying so, do not compile', async () => {
    // The compiler underlines the path itself.
    const wrong = client.tokenize(shopper, {
      fields: [
        // @ts-expect-error
        'emial',
        // @ts-expect-error
        'id',
        // @ts-expect-error
        'born',
        // @ts-expect-error
        'orders[*].note',
        // @ts-expect-error
        'orders',
      ],
    });
    await expect(wrong).rejects.toThrow('data.emial');
    // @ts-expect-error
    await expect(client.detokenize([shopper], { fields: ['[*].email'] })).rejects.toThrow();
    // @ts-expect-error
    await expect(client.detokenize(shopper, { fields: [] as string[] })).rejects.toThrow('fields:');
  });
});

describe('with a policy', () => {
  const whole = new Standin({ ...OPTIONS, policy: true });
  interface Row {
    id: bigint;
    state: 'open' | 'done';
    total: number | null;
    isMember?: boolean;
    cards: readonly { number: string; cvc: null }[];
    inner: Row | null;
  }
  const cards = [{ number: 'a', cvc: null }];
  const row: Row = { id: 9007199254740993n, state: 'open', total: -0, cards, inner: null };

  test('any JSON goes there and back, and has its type', async () => {
    expectTypeOf(whole).toEqualTypeOf<Standin<true>>();
    const answer = await whole.tokenize(row);
    expectTypeOf(answer).toEqualTypeOf<Row>();
    expect(answer).toEqual(row);
    const rows = await whole.detokenize([row, row] as readonly Row[]);
    expectTypeOf(rows).toEqualTypeOf<readonly Row[]>();
    expect(rows).toEqual([row, row]);
    const given = { id: 7, to: 'a' };
    expectTypeOf(await whole.tokenize(given)).toEqualTypeOf<{ id: number; to: string }>();
    const { data, unapplied } = await whole.detokenize(row, { lenient: true });
    expectTypeOf(data).toEqualTypeOf<Row>();
    expectTypeOf(unapplied[0]?.reason).toEqualTypeOf<
      'unknown' | 'forbidden' | 'excluded' | undefined
    >();
    expect([data, unapplied]).toEqual([row, []]);
    const found = await whole.lookup({ id: 7, to: 'a' });
    expectTypeOf(found).toEqualTypeOf<{ id: number; to: string | null }>();
    expectTypeOf(await client.lookup(['a'])).toEqualTypeOf<(string | null)[]>();
    expect(found).toEqual({ id: 7, to: 'a' });
  });

  test('what JSON has not does not compile, and is refused', async () => {
    const refused: Promise<unknown>[] = [
      // @ts-expect-error
      whole.tokenize({ born: new Date(0) }),
      // @ts-expect-error
      whole.tokenize([{ tags: new Set(['a']) }]),
      // @ts-expect-error
      whole.detokenize({ a: () => 'b' }),
      // @ts-expect-error
      whole.tokenize({ a: Symbol('b') } as Record<string, unknown>),
      // @ts-expect-error
      whole.tokenize(shopper, { fields: ['email'] }),
      // @ts-expect-error
      client.lookup({ id: 7 }),
    ];
    for (const promise of refused) await expect(promise).rejects.toThrow();
    const not: Standin<true>[] = [
      // @ts-expect-error
      client,
    ];
    expect(not[0]!.policy).toBe(false);
  });
});

test('the fetch of a runtime is one that options take', () => {
  expectTypeOf(fetch).toExtend<Fetch>();
});
