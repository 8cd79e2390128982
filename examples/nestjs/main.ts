import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { CustomersModule } from './customers.js';

const app = await NestFactory.create(CustomersModule, { logger: ['error'] });
const server = await app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1');
console.log('listening on', server.address());
