import { CallerError } from '../errors.ts';
import type { ServerContext } from './context.ts';
import type { Answer, Exchange } from './exchange.ts';
import { admitReader } from './guards.ts';
import { MESSAGES } from './schema.ts';

/** GET /api/v1/policy: which strings the policy in force replaces, and its tag for If-Match. */
export function policyHandler(context: ServerContext) {
  return async (exchange: Exchange): Promise<Answer> => {
    await admitReader(context, exchange);
    const { version, tag, fields, elsewhere } = await context.policies.current();
    if (tag === undefined) throw new CallerError('not_found', MESSAGES.no_policy);
    exchange.headers.ETag = tag;
    return { status: 200, body: JSON.stringify({ version, fields, elsewhere }) };
  };
}
