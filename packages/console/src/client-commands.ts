import { limitShown } from './format.ts';
import type { ClientDetail, LimitState } from './protocol.ts';

/** A command of `standin`, ready to run. */
export interface Command {
  readonly does: string;
  readonly line: string;
}

const DEFAULT_KEY_LIFE = '90d';
const EXAMPLE_PER_S = 100;

/** The commands for this client as it is now. Numbers in them are examples to change. */
export function commandsOf(client: ClientDetail): Command[] {
  const { client_id: id, disabled_at: disabledAt, limits } = client;
  const update = `standin client update ${id}`;
  if (disabledAt !== null) return [{ does: 'Enable the client again', line: `${update} --enable` }];
  const [counting] = limits;
  const both = client.can_tokenize && client.can_detokenize;
  return [
    {
      does: 'Issue another API key',
      line: `standin api-key issue --client ${id} --expires ${DEFAULT_KEY_LIFE}`,
    },
    ...(counting === undefined
      ? []
      : [
          {
            does: `Set its limit: ${counting.words.toLowerCase()}`,
            line: `${update} --${counting.name.replaceAll('_', '-')} ${counting.perS || EXAMPLE_PER_S}`,
          },
        ]),
    both
      ? { does: 'Allow it to tokenize only', line: `${update} --can tokenize` }
      : {
          does: 'Allow it to tokenize and detokenize',
          line: `${update} --can tokenize,detokenize${client.can_lookup ? ',lookup' : ''}`,
        },
    { does: 'Refuse all its requests', line: `standin client disable ${id}` },
  ];
}

/** The name of a limit, and the limit in words. */
export function limitText({ words, perS, isOwn }: LimitState): [string, string] {
  const text = perS === 0 ? 'no limit' : `at most ${limitShown(perS)}`;
  return [words, isOwn ? text : `${text} (default)`];
}
