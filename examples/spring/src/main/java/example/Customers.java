package example;

import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RestController;

/** A customer service that stores tokens, and detokenizes only when it must. */
@SpringBootApplication
@RestController
public class Customers {
  private final Tokens tokens;

  /** Stands for your database, which never gets personal data. */
  private final Map<String, Map<String, String>> customers = new ConcurrentHashMap<>();

  Customers(Tokens tokens) {
    this.tokens = tokens;
  }

  @PostMapping("/customers")
  Map<String, String> add(@RequestBody Map<String, String> customer) {
    Map<String, String> stored = tokens.tokenize(customer);
    String id = UUID.randomUUID().toString();
    customers.put(id, stored);
    Map<String, String> answer = new HashMap<>(stored);
    answer.put("id", id);
    return answer;
  }

  @GetMapping("/customers/{id}/email")
  Map<String, String> email(@PathVariable String id) {
    return tokens.detokenize(Map.of("email", customers.get(id).get("email")));
  }

  public static void main(String[] arguments) {
    SpringApplication.run(Customers.class, arguments);
  }
}
