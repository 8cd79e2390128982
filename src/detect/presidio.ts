import { InternalError } from '../errors.ts';
import { fetchJson, NoJson } from '../fetch-json.ts';
import { TextOffsets } from './text-offsets.ts';

/** Less is a guess. */
const LEAST_SCORE = 0.5;
/** For all texts of a request. */
export const PRESIDIO_TIMEOUT_MS = 10_000;
const MAX_ANSWER_BYTES = 16_777_216;

/** Where Presidio's analyzer is, and the language of the texts. */
export interface PresidioOptions {
  readonly url: string;
  /** As the analyzer calls it, such as `en`. */
  readonly language: string;
}

/** A stretch of a text, in UTF-16 units. */
interface Entity {
  readonly from: number;
  readonly to: number;
  readonly entity: string;
}

/**
 * Asks the analyzer of Microsoft Presidio for names, places and other entities of a text.
 * @throws InternalError presidio_unavailable when it is away, slow, or answers anything else
 */
export async function analyze(
  { url, language }: PresidioOptions,
  text: string,
  entities: readonly string[],
  signal = AbortSignal.timeout(PRESIDIO_TIMEOUT_MS),
): Promise<Entity[]> {
  try {
    const init = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ text, language, entities }),
      signal,
    };
    const json = await fetchJson(`${url}/analyze`, init, MAX_ANSWER_BYTES);
    if (!Array.isArray(json)) throw new NoJson('BAD_ANSWER', 'did not answer with a list');
    const offsets = new TextOffsets(text);
    return json.flatMap((one) => {
      const { start, end, score, entity_type: entity } = (one ?? {}) as Record<string, unknown>;
      const isRead = offsets.has(start) && offsets.has(end) && typeof score === 'number';
      if (!isRead || start >= end || !entities.includes(entity as string))
        throw new NoJson('BAD_ANSWER', 'gave an entity that is not readable');
      if (score < LEAST_SCORE) return [];
      return [{ from: offsets.unitOf(start), to: offsets.unitOf(end), entity: entity as string }];
    });
  } catch (cause) {
    throw new InternalError('presidio_unavailable', { cause });
  }
}
