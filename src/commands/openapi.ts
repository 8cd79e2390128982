import { isIPv6 } from 'node:net';
import { type Command, Option } from 'commander';
import { documentText } from '../http/openapi.ts';
import { command, config } from './command.ts';

export function addOpenApi(program: Command): void {
  command(
    program,
    'openapi',
    'Print the OpenAPI document of the service with these settings.',
    ['standin openapi > openapi.json', 'standin openapi --interface-version 1.0.4'],
    false,
  )
    .addOption(
      new Option(
        '--interface-version <version>',
        'version of the interface; default: INTERFACE_VERSION',
      ).choices(['1.0.5', '1.0.4']),
    )
    .action(({ interfaceVersion }) => {
      const settings = config();
      const { HOST, PORT, tls, INTERFACE_VERSION } = settings;
      const host = isIPv6(HOST) ? `[${HOST}]` : HOST;
      const url = `${tls === undefined ? 'http' : 'https'}://${host}:${PORT}`;
      const version = interfaceVersion ?? INTERFACE_VERSION;
      process.stdout.write(documentText({ ...settings, INTERFACE_VERSION: version }, url));
    });
}
