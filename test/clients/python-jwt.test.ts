import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ROOT } from '../support/program.ts';
import { run } from '../support/recipes.ts';

/** The result of test/clients/install.sh. */
const TOOLS = join(ROOT, 'build/python');

const CALLS = `
import asyncio, os
from standin import AsyncStandin, Standin
url = os.environ["STANDIN_URL"]
jwts = iter(["a.b.1", "a.b.2", "no key"])
client = Standin(url, lambda: next(jwts))
client.tokenize({"a": "b"})
async def call() -> None:
    async with AsyncStandin(url, lambda: next(jwts)) as other:
        await other.tokenize({"a": "b"})
asyncio.run(call())
try:
    client.tokenize({"a": "b"})
except ValueError as error:
    assert "or a JWT" in str(error) and "no key" not in str(error)
Standin(url, "a.b.fixed").tokenize({"a": "b"})
print("ok")
`;

describe.runIf(existsSync(join(TOOLS, 'ready')))('the Python package', () => {
  test('sends a JWT, and asks a function for one before each request', async () => {
    const sent: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      sent.push(request.headers.authorization);
      const body = { data: { values: ['c_tok'] }, request_id: 'r', client_id: 'c' };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const env = {
      PYTHONPATH: join(ROOT, 'clients/python/src'),
      STANDIN_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    };
    expect(await run([join(TOOLS, 'bin/python'), '-c', CALLS], ROOT, env)).toBe('ok\n');
    expect(sent).toEqual(['Bearer a.b.1', 'Bearer a.b.2', 'Bearer a.b.fixed']);
    server.close();
    server.closeAllConnections();
  });
});
