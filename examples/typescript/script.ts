/**
 * Tokenizes all strings of a JSON file that fits into memory. With `detokenize`, restores the
 * values:
 *
 *   node script.ts tokenize < customers.json > tokens.json
 */
import { json } from 'node:stream/consumers';
import { Standin, StandinError } from 'standin-client';

type Json = string | Json[] | { [name: string]: Json };

const { STANDIN_URL: url = 'http://127.0.0.1:8080', STANDIN_API_KEY: apiKey = '' } = process.env;
const standin = new Standin({ url, apiKey, timeoutMs: 3_600_000 });

const stop = new AbortController();
process.once('SIGINT', () => stop.abort(new Error('interrupted')));

try {
  const data = (await json(process.stdin)) as Exclude<Json, string>;
  const { signal } = stop;
  const isBack = process.argv[2] === 'detokenize';
  const answer = await (isBack
    ? standin.detokenize(data, { signal })
    : standin.tokenize(data, { signal }));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
} catch (error) {
  // The message of a StandinError contains no value. The message of a SyntaxError quotes the input.
  if (error instanceof StandinError || stop.signal.aborted) console.error(String(error));
  else console.error('standard input is not JSON');
  process.exitCode = 1;
}
