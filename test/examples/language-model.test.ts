import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ModelProvider } from '../support/model-provider.ts';
import { startWithPolicy } from '../support/policy.ts';
import { example, run } from '../support/recipes.ts';
import { kinds, ROOT, type Service } from '../support/service.ts';

/** The result of test/examples/install.sh. */
const TOOLS = join(ROOT, 'build/language-model');
const PYTHON = join(TOOLS, 'bin/python');
const isReady = existsSync(join(TOOLS, 'ready')) && kinds().includes('server');
const FOLDER = example('language-model');
const read = (name: string) => readFileSync(join(FOLDER, name), 'utf8');

const PERSONAL = [
  'Ann Lee',
  'Bo Ray',
  'ann.lee@example.com',
  'bo@shop.internal',
  '+44 20 7946 0958',
  '4111 1111 1111 1111',
] as const;
/** Parts of it that must not leave the machine either. */
const PARTS = [
  ...PERSONAL,
  'Ann',
  'Lee',
  'Bo',
  'Ray',
  'example.com',
  'shop.internal',
  '7946',
  '4111',
];

const TOKEN = /[a-z]+_tok/g;

const wordOf = (part: string) => new RegExp(`(?<!\\w)${part.replace(/[+.]/g, '\\$&')}(?!\\w)`, 'i');

/** As models do: at the beginning of a sentence, quoted, in brackets, in Markdown. */
function paraphrase(tokens: readonly string[]): string {
  const [name, mail, phone, , other, otherMail, card] = tokens as [string, ...string[]];
  const sentence = name.charAt(0).toUpperCase() + name.slice(1);
  return (
    `${sentence}'s mail is "${mail}" 📧 (phone: ${phone}). **${other!.replace('_', '\\_')}**,` +
    ` <${otherMail}>, charged ${card!.toUpperCase()} twice. nobody_tok is unknown; is ${name}`
  );
}

const ANSWER =
  'Ann Lee\'s mail is "ann.lee@example.com" 📧 (phone: +44 20 7946 0958). **Bo Ray**,' +
  ' <bo@shop.internal>, charged 4111 1111 1111 1111 twice. nobody_tok is unknown; is Ann Lee\n';

describe.runIf(isReady)('a conversation with a language model', () => {
  let service: Service;
  let model: ModelProvider;
  let said = '';
  beforeAll(async () => {
    service = await startWithPolicy(read('policy.yaml'));
    model = await ModelProvider.start(({ body }) => {
      const texts: string[] = body.messages.map(({ content }: any) => content);
      said = paraphrase(texts.flatMap((text) => text.match(/[a-z]{10}_tok/g) ?? []));
      return [{ text: said }];
    });
  });
  afterAll(async () => {
    model.stop();
    await service.stop();
  });

  /** A connection to any other host would go to the model, too, as to a proxy. */
  const chat = () =>
    run(['sh', '-c', `'${PYTHON}' -B private_chat.py < conversation.json`], FOLDER, {
      STANDIN_URL: service.url,
      STANDIN_API_KEY: service.api_key,
      OPENAI_BASE_URL: `${model.url}/v1`,
      OPENAI_API_KEY: 'model-key',
      HTTP_PROXY: model.url,
      HTTPS_PROXY: model.url,
      NO_PROXY: '127.0.0.1',
    });

  test.each([1, 5, 9])(
    'nothing personal leaves the machine, and the answer has it, in pieces of %i characters',
    async (pieceLength) => {
      model.pieceLength = pieceLength;
      expect(await chat()).toBe(ANSWER);
      expect(said.match(TOKEN)!.length).toBeGreaterThan(5);
    },
  );

  test('every byte that left: tokens in place of what is personal, and the rest as it was', () => {
    const received = model.received();
    expect(received.match(/[A-Z]+ \S+ HTTP\/1\.1/g)).toEqual(
      Array.from({ length: 3 }, () => 'POST /v1/chat/completions HTTP/1.1'),
    );
    expect(received).toContain("👋 Hi, I'm ");
    for (const part of PARTS) expect(received).not.toMatch(wordOf(part));
    const { messages } = JSON.parse(read('conversation.json'));
    const rolesOf = (all: any[]) => all.map(({ role }) => role);
    expect(rolesOf(model.asked[0]!.body.messages)).toEqual(rolesOf(messages));
    // The canary: all of it is in the conversation.
    for (const part of PARTS) expect(JSON.stringify(messages)).toMatch(wordOf(part));
  });
});
