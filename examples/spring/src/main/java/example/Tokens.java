package example;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.stereotype.Service;

/** Tokens for values, and values for tokens; names of fields stay. */
@Service
public class Tokens {
  private final Standin standin;
  private final ObjectMapper json;

  Tokens(
      @Value("${standin.url}") String url,
      @Value("${standin.api-key}") String apiKey,
      ObjectMapper json) {
    this.standin = new Standin(url, apiKey);
    this.json = json;
  }

  public Map<String, String> tokenize(Map<String, String> values) {
    return call("tokenize", values);
  }

  public Map<String, String> detokenize(Map<String, String> tokens) {
    return call("detokenize", tokens);
  }

  private Map<String, String> call(String operation, Map<String, String> texts) {
    // As a list: of a record, a policy can leave strings in clear.
    Map<String, ?> data = Map.of("values", texts.values());
    try {
      String answer = standin.call(operation, json.writeValueAsString(Map.of("data", data)));
      Iterator<JsonNode> values = json.readTree(answer).at("/data/values").iterator();
      Map<String, String> replaced = new HashMap<>();
      for (String name : texts.keySet()) {
        replaced.put(name, values.next().textValue());
      }
      return replaced;
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(interrupted);
    }
  }
}
