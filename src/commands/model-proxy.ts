import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { modelProxy } from '#model-proxy';
import { providerSettings } from '../config/config.ts';
import { httpBase } from '../config/setting.ts';
import { errorCode, OperatorError } from '../errors.ts';
import { command, interruptible, whole } from './command.ts';

const PROVIDER = 'https://api.openai.com';

interface ProxyCommand {
  readonly upstream: string;
  readonly standin?: string;
  readonly providerKeyFile?: string;
  readonly host: string;
  readonly port: number;
  readonly images: 'refuse' | 'pass';
  readonly maxBodyBytes: number;
  readonly maxOpen: number;
  /** Seconds. */
  readonly timeout: number;
}

export function addModelProxy(program: Command): void {
  command(
    program,
    'model-proxy',
    'Run a proxy in front of a language model: it sends tokens, and answers with the values.',
    [
      'standin model-proxy --provider-key-file openai.key',
      'standin model-proxy --upstream https://api.anthropic.com --provider-key-file anthropic.key --port 8091',
    ],
    false,
  )
    .option('--upstream <url>', 'of the provider, before /v1', baseUrl(PROVIDER), PROVIDER)
    .option('--provider-key-file <file>', 'file with its API key; default: PROVIDER_API_KEY')
    .option(
      '--standin <url>',
      'address of the service; default: STANDIN_URL',
      baseUrl('http://localhost:8080'),
    )
    .option('--host <host>', 'where it listens', '127.0.0.1')
    .option(
      '--port <port>',
      '0: any free port',
      whole('a number from 1 to 65535, or 0 for any free port', 0, 65_535),
      8090,
    )
    .addOption(
      new Option('--images <what>', 'images and files, in which nobody looks for values')
        .choices(['refuse', 'pass'])
        .default('refuse'),
    )
    .option('--max-body-bytes <n>', 'of a request or an answer', bytes, 8 << 20)
    .option('--max-open <n>', 'requests at a time', whole('1 to 10000', 1, 10_000), 200)
    .option('--timeout <seconds>', 'for a whole answer', whole('1 to 3600', 1, 3_600), 600)
    .action(run);
}

const bytes = whole('1000 to 100000000', 1_000, 100_000_000);

/** Makes the parser of an option that takes an address like this example. */
function baseUrl(example: string): (text: string) => string {
  return (text) => {
    const url = httpBase(text);
    if (url !== undefined && !url.endsWith('/v1')) return url;
    throw new InvalidArgumentError(`It must be like ${example}, without /v1.`);
  };
}

async function run({ standin, providerKeyFile, host, port, ...options }: ProxyCommand) {
  const { url, api_key: providerKey } = providerSettings(providerKeyFile);
  const server = modelProxy({
    upstreamUrl: options.upstream,
    standinUrl: standin ?? url,
    providerKey,
    passesFiles: options.images === 'pass',
    maxBodyBytes: options.maxBodyBytes,
    maxOpen: options.maxOpen,
    timeoutMs: options.timeout * 1000,
    onEnd: (end) => write({ time: new Date().toISOString(), ...end }),
  });
  await interruptible(async (stop) => {
    server.listen(port, host);
    await once(server, 'listening').catch((error) => {
      throw new OperatorError(`Cannot listen on ${host}:${port} (${errorCode(error)}).`);
    });
    const { address, port: given } = server.address() as AddressInfo;
    write({ msg: 'listening', host: address, port: given, upstream: options.upstream });
    // Open answers end first. A second signal ends them, too.
    if (!stop.aborted) await once(stop, 'abort');
    server.close();
    await once(server, 'close');
  });
}

/** The log has no texts: they are what the proxy protects. */
function write(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
