// Options that match patterns.

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <string>

#include <linux/kernel.h>
#include <linux/parser.h>
#include <linux/slab.h>

namespace {

/// Where the argument that `kind` stands for ends; its beginning: there is none.
[[nodiscard]] char* argument_end(char* text, char kind, char stop) {
  if (kind == 's') {
    char* const end = stop == '\0' ? text + std::strlen(text) : std::strchr(text, stop);
    return end != nullptr ? end : text;
  }
  char* end = text;
  const int base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'd' ? 0 : 10;
  if (kind == 'u' && *text == '-') {
    return text;
  }
  static_cast<void>(std::strtoll(text, &end, base));
  return end;
}

[[nodiscard]] bool matches(char* text, const char* pattern, substring_t* arguments) {
  int count = 0;
  for (; *pattern != '\0'; ++pattern) {
    if (*pattern != '%' || pattern[1] == '%') {
      pattern += *pattern == '%' ? 1 : 0;
      if (*text++ != *pattern) {
        return false;
      }
      continue;
    }
    ++pattern;
    char* const end = argument_end(text, *pattern, pattern[1]);
    if (end == text || count == MAX_OPT_ARGS) {
      return false;
    }
    arguments[count++] = {.from = text, .to = end};
    text = end;
  }
  return *text == '\0';
}

}  // namespace

int match_token(char* text, const match_table_t table, substring_t arguments[]) {
  const match_token_row* row = table;
  while (row->pattern != nullptr && !matches(text, row->pattern, arguments)) {
    ++row;
  }
  return row->token;
}

int match_int(substring_t* argument, int* to) {
  const std::string text{argument->from, argument->to};
  return kstrtoint(text.c_str(), 0, to);
}

char* match_strdup(const substring_t* argument) {
  return kstrndup(argument->from, static_cast<std::size_t>(argument->to - argument->from),
                  GFP_KERNEL);
}

size_t match_strlcpy(char* to, const substring_t* argument, size_t size) {
  const auto length = static_cast<std::size_t>(argument->to - argument->from);
  if (size != 0) {
    const std::size_t count = std::min(length, size - 1);
    std::memcpy(to, argument->from, count);
    to[count] = '\0';
  }
  return length;
}
