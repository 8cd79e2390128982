import type { ClientDetail } from './protocol.ts';

const DEFAULT_KEY_LIFE = '90d';
const EXAMPLE_PER_S = 100;

/** What the commands for this client do, and they. Numbers in them are examples to change. */
export function commandsOf(client: ClientDetail): (readonly [does: string, line: string])[] {
  const { client_id: id, can_lookup: canLookup, limits } = client;
  const update = `standin client update ${id}`;
  if (client.disabled_at !== null) return [['Enable the client again', `${update} --enable`]];
  const [counting] = limits;
  const both = client.can_tokenize && client.can_detokenize;
  const commands: (readonly [string, string])[] = [
    ['Issue another API key', `standin api-key issue --client ${id} --expires ${DEFAULT_KEY_LIFE}`],
    both
      ? ['Allow it to tokenize only', `${update} --can tokenize`]
      : [
          'Allow it to tokenize and detokenize',
          `${update} --can tokenize,detokenize${canLookup ? ',lookup' : ''}`,
        ],
    ['Refuse all its requests', `standin client disable ${id}`],
  ];
  if (counting === undefined) return commands;
  const option = `--${counting.name.replaceAll('_', '-')} ${counting.perS || EXAMPLE_PER_S}`;
  return [[`Set its limit: ${counting.words.toLowerCase()}`, `${update} ${option}`], ...commands];
}
