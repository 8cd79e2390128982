import { text } from 'node:stream/consumers';
import { StandIn } from './stand-in.ts';

/** A front of a Standin that can fail. It keeps the paths of all requests. */
export class Front extends StandIn {
  readonly paths: string[] = [];
  /** The status with which requests to paths that end so fail; 0: they get no answer. */
  failing: readonly [path: string, status: number] | undefined;

  static start(standinUrl: () => string): Promise<Front> {
    return new Front(standinUrl).open();
  }

  private constructor(standinUrl: () => string) {
    super(async (request, response) => {
      const path = request.url!;
      this.paths.push(path);
      const [end, status] = this.failing ?? [];
      if (end !== undefined && path.endsWith(end)) {
        if (status === 0) return;
        return response
          .writeHead(status!, { 'retry-after': '60' })
          .end(`{"error":"${status === 404 ? 'not_found' : 'internal_error'}","message":"m"}`);
      }
      const body: string | undefined = request.method === 'POST' ? await text(request) : undefined;
      const answer = await fetch(standinUrl() + path, {
        method: request.method!,
        headers: {
          authorization: request.headers.authorization!,
          'content-type': 'application/json',
        },
        ...(body !== undefined && { body }),
      });
      const passed = [...answer.headers].filter(([name]) => /^(etag|retry-after)$/.test(name));
      response.writeHead(answer.status, Object.fromEntries(passed));
      return response.end(await answer.text());
    });
  }
}
