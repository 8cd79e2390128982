import { errorCode, InternalError } from '../errors.ts';
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

/** Why Presidio gave nothing. The code is for logs: it has nothing of a text. */
class PresidioError extends Error {
  readonly code: string;

  constructor(code: string, message = code) {
    super(message);
    this.code = code;
  }
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
    const answer = await fetch(`${url}/analyze`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: JSON.stringify({ text, language, entities }),
      redirect: 'error',
      signal,
    });
    const json = await jsonOf(answer);
    const offsets = new TextOffsets(text);
    return json.flatMap((one) => {
      const { start, end, score, entity_type: entity } = one as Record<string, unknown>;
      const isRead = isOffset(start) && isOffset(end) && typeof score === 'number';
      if (!isRead || start >= end || end > offsets.length || !entities.includes(entity as string))
        throw new PresidioError('BAD_ANSWER', 'an entity is not readable');
      if (score < LEAST_SCORE) return [];
      return [{ from: offsets.unitOf(start), to: offsets.unitOf(end), entity: entity as string }];
    });
  } catch (cause) {
    throw new InternalError('presidio_unavailable', { cause: reasonOf(cause) });
  }
}

/** Errors of libraries could quote the answer. */
function reasonOf(error: unknown): PresidioError {
  if (error instanceof PresidioError) return error;
  const { name, cause } = error as Error;
  if (name === 'TimeoutError') return new PresidioError('TIMEOUT', 'it was too slow');
  return new PresidioError(errorCode(cause) ?? 'NO_ANSWER');
}

function isOffset(json: unknown): json is number {
  return Number.isSafeInteger(json) && (json as number) >= 0;
}

async function jsonOf({ status, body }: Response): Promise<unknown[]> {
  if (status !== 200) {
    await body?.cancel();
    throw new PresidioError(`STATUS_${status}`);
  }
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) throw new PresidioError('BAD_ANSWER', 'the answer is too long');
  }
  const json = parsed(Buffer.concat(chunks).toString());
  if (!Array.isArray(json)) throw new PresidioError('BAD_ANSWER', 'the answer is no list');
  return json;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
