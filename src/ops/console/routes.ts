import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Operation, PATHS } from '#console';
import { type Access, checkNotEmbedded, checkSameOrigin } from '../access.ts';
import { answerJson, Refusal } from '../answers.ts';
import { readJson } from '../bodies.ts';
import type { Route } from '../server.ts';
import type { CurrentState } from './current-state.ts';
import type { EventStreams } from './events.ts';
import type { Playground } from './playground.ts';

const MAX_SIGN_IN_BYTES = 4_096;

export interface ConsoleParts {
  readonly access: Access;
  readonly state: CurrentState;
  readonly events: EventStreams;
  readonly playground: Playground;
}

/** The routes of the console, by path. */
export function consoleRoutes(parts: ConsoleParts): Map<string, Route> {
  const { access, state, events, playground } = parts;
  const tryOut = (operation: Operation): Route => ({
    POST: async (request, response) => {
      checkSameOrigin(request);
      await playground.call(operation, request, response);
    },
  });
  return new Map<string, Route>([
    [
      PATHS.state,
      {
        GET: async (request, response) => {
          checkNotEmbedded(request);
          answerJson(response, 200, await state.read());
        },
      },
    ],
    [
      PATHS.events,
      {
        GET: async (request, response) => {
          checkNotEmbedded(request);
          await events.open(request, response, () => access.isAllowed(request));
        },
      },
    ],
    [
      PATHS.session,
      {
        isOpen: true,
        POST: (request, response) => signIn(access, request, response),
        DELETE: async (request, response) => {
          checkSameOrigin(request);
          const forgotten = access.sessions?.end(request.headers.cookie);
          if (forgotten !== undefined) response.setHeader('Set-Cookie', forgotten);
          response.writeHead(204).end();
        },
      },
    ],
    [PATHS.tokenize, tryOut('tokenize')],
    [PATHS.detokenize, tryOut('detokenize')],
  ]);
}

async function signIn(
  { sessions }: Access,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  checkSameOrigin(request);
  const token = tokenIn(await readJson(request, MAX_SIGN_IN_BYTES));
  // Without OPS_TOKEN, everybody who can connect is signed in.
  if (sessions !== undefined) {
    if (!sessions.takeTry(request.socket.remoteAddress)) {
      response.setHeader('Retry-After', 1);
      throw new Refusal(429, 'too_many', 'Too many attempts to sign in. Wait a second.');
    }
    if (!sessions.isToken(token)) {
      throw new Refusal(401, 'unauthorized', 'This is not the OPS_TOKEN of this service.');
    }
    response.setHeader('Set-Cookie', sessions.begin());
  }
  response.writeHead(204).end();
}

function tokenIn(body: Buffer): string {
  try {
    const { token } = JSON.parse(body.toString());
    if (typeof token === 'string') return token;
  } catch {
    // Refused below, like every other wrong body.
  }
  throw new Refusal(400, 'bad_request', 'Send {"token": "..."} with the OPS_TOKEN.');
}
