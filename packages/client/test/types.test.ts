import { describe, expect, expectTypeOf, test } from 'vitest';
import { type Fetch, Standin, type StandinOptions } from '../src/index.ts';

/** Echoes the values: this file tests what the compiler infers. */
const echo: Fetch = async (_, { body = '' }) => ({
  status: 200,
  headers: { get: () => null },
  text: async () => body,
});
const client = new Standin({
  url: 'http://127.0.0.1:8080',
  apiKey: 'stk_0123456789ABCDEFGHIJKLMNOPQR1KnaxG',
  fetch: echo,
});

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
    expectTypeOf(strict).toEqualTypeOf<{
      readonly email: string;
      readonly tags: readonly [string];
    }>();
    expect(answer).toEqual(strict);
  });

  test('interfaces, lists, tuples, what is optional, what has itself inside, any', async () => {
    const answer = await client.detokenize(customer);
    expectTypeOf(answer).toEqualTypeOf<Customer>();
    expectTypeOf(await client.tokenize([customer] as readonly Customer[])).toEqualTypeOf<
      readonly Customer[]
    >();
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
    client.tokenize({ age: 5 }),
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
  for (const promise of refused) await expect(promise).rejects.toThrow(/^data.*: must be /);
});

test('the fetch of a runtime is one that options take', () => {
  const options: StandinOptions = { url: '', apiKey: '', fetch };
  expect(options.fetch).toBe(fetch);
});
