import { afterAll, beforeAll } from 'vitest';
import {
  type Kind,
  leastPrivilegePlace,
  makeVault,
  newPlace,
  type Place,
  type Service,
  startService,
  until,
} from './service.ts';

/** One service for all tests of a block. Its fields are there once the tests run. */
export function served<S extends Service = Service>(start: () => Promise<S>): S {
  const service = {} as S;
  beforeAll(async () => {
    Object.assign(service, await start());
  });
  afterAll(async () => {
    await service.stop?.();
    service.place?.remove();
  });
  return service;
}

/** A vault with a running service, for all tests of a block. */
export function servedVault<S extends Service = Service>(
  kind: Kind,
  start = startService as (place: Place) => Promise<S>,
) {
  const service = served(async () => {
    const place = await newPlace(kind);
    await makeVault(place);
    return start(place);
  });
  return {
    service,
    get place() {
      return service.place;
    },
  };
}

/** A service with no more rights than it needs. */
export function usualService(): Service {
  return served(async () => startService(await leastPrivilegePlace()));
}

/** The whole lines of the log that contain all of these texts. */
export function logged({ output }: Service, ...texts: string[]): any[] {
  return output()
    .split('\n')
    .filter((line) => /^\{.*\}$/.test(line) && texts.every((text) => line.includes(text)))
    .map((line) => JSON.parse(line));
}

/** The first line of the log with these texts, once it is there. */
export async function logLine(service: Service, ...texts: string[]): Promise<any> {
  await until(() => logged(service, ...texts).length > 0, `a line with ${texts}`);
  return logged(service, ...texts)[0];
}
