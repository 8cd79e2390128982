import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { runCommand } from '../support/in-process.ts';
import { ModelProvider } from '../support/model-provider.ts';
import { governed } from '../support/policy.ts';
import { start } from '../support/running.ts';
import { CLI, environmentOf } from '../support/service.ts';

const vault = governed(`version: 1
kinds: { mail: { shape: word } }
detect: { email: mail }
rights: { "*": { "*": full } }
`);

test('the command serves until SIGTERM, and writes a line for each request, without texts', async () => {
  const provider = await ModelProvider.start();
  onTestFinished(() => provider.stop());
  const { place } = vault.service;
  const keyFile = join(place.folder, 'provider.key');
  writeFileSync(keyFile, 'key-of-the-provider\n', { mode: 0o600 });
  const args = `model-proxy --port 0 --upstream ${provider.url} --provider-key-file ${keyFile}`;
  const env = environmentOf(place, { STANDIN_URL: vault.service.url });
  const proxy = start([process.execPath, CLI, ...args.split(' ')], { cwd: place.folder, env });
  const port = await proxy.wrote(/"host":"127.0.0.1","port":(\d+),"upstream":"http:/);
  const ask = (content: unknown, apiKey: string) =>
    fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content }] }),
    });
  const mail = 'ann.lee@example.com';
  const answer: any = await (await ask(`Write to ${mail}`, vault.keys.app!)).json();
  expect(answer.choices[0].message.content).toBe(`Write to ${mail}`);
  expect(provider.received()).not.toContain(mail);
  expect(provider.asked[0]!.headers.authorization).toBe('Bearer key-of-the-provider');
  expect((await ask(mail, 'key-of-the-provider')).status).toBe(401);
  expect((await ask([{ type: 'image_url', image_url: 'a' }], vault.keys.app!)).status).toBe(400);
  await proxy.wrote(/"status":401/);
  expect(await proxy.stop('SIGTERM')).toBe(0);
  expect(proxy.output()).toMatch(/"path":"\/v1\/chat\/completions","status":200/);
  for (const secret of [mail, vault.keys.app!, 'key-of-the-provider'])
    expect(proxy.output()).not.toContain(secret);
});

test.each<readonly [args: readonly string[], message: RegExp]>([
  [[], /There is no API key of the provider: set PROVIDER_API_KEY/],
  [['--upstream', 'https://api.openai.com/v1'], /without \/v1/],
  [['--standin', 'localhost'], /It must be like http:\/\/localhost:8080, without/],
  [['--port', '65536'], /It must be a number from 1 to 65535/],
  ...['999', '100000001'].map((n) => [['--max-body-bytes', n], /1000 to 100000000/] as const),
  ...['0', '10001'].map((n) => [['--max-open', n], /1 to 10000/] as const),
  ...['0', '3601'].map((n) => [['--timeout', n], /1 to 3600/] as const),
  ...['1000 1 1 1', '100000000 10000 3600 65535'].map((bounds) => {
    const [bytes, open, seconds, port] = bounds.split(' ') as [string, string, string, string];
    const others = ['--max-open', open, '--timeout', seconds, '--port', port];
    return [['--max-body-bytes', bytes, ...others], /There is no API key/] as const;
  }),
])('mistakes have a remedy: %j', async (args, message) => {
  const { stderr, code } = await runCommand(['model-proxy', ...args], vault.service.place);
  expect(code).not.toBe(0);
  expect(stderr).toMatch(message);
});
