/** A NestJS module that stores tokens, and detokenizes only when it must. */
import { randomUUID } from 'node:crypto';
import {
  Body,
  Controller,
  Get,
  Global,
  Inject,
  Module,
  NotFoundException,
  Param,
  Post,
  Query,
} from '@nestjs/common';
import { Standin } from 'standin-client';

const standin = {
  provide: Standin,
  useFactory: () =>
    new Standin({
      url: process.env.STANDIN_URL ?? 'http://127.0.0.1:8080',
      apiKey: process.env.STANDIN_API_KEY ?? '',
    }),
};

@Global()
@Module({ providers: [standin], exports: [standin] })
export class StandinModule {}

interface Customer {
  name: string;
  email: string;
}

@Controller('customers')
export class Customers {
  /** Stands for your database, which never gets personal data. */
  readonly #customers = new Map<string, Customer>();
  readonly #standin: Standin;

  constructor(@Inject(Standin) standin: Standin) {
    this.#standin = standin;
  }

  @Post()
  async add(@Body() { name, email }: Customer) {
    const customer = await this.#standin.tokenize({ name, email });
    const id = randomUUID();
    this.#customers.set(id, customer);
    return { id, ...customer };
  }

  /** Equal values have equal tokens, so a search needs no values. */
  @Get()
  async find(@Query('email') email: string) {
    const [token] = await this.#standin.tokenizeValues([email]);
    return [...this.#customers].filter(([, customer]) => customer.email === token);
  }

  @Get(':id/email')
  async email(@Param('id') id: string) {
    const customer = this.#customers.get(id);
    if (customer === undefined) throw new NotFoundException();
    return this.#standin.detokenize({ email: customer.email });
  }
}

@Module({ imports: [StandinModule], controllers: [Customers] })
export class CustomersModule {}
