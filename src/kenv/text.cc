// Texts, and numbers that are written in them.

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>

namespace {

/// A whole text that is a number, but for one newline at its end.
int parse(const char* text, unsigned base, bool& is_negative, unsigned long long& to) {
  std::string_view rest{text};
  if (rest.ends_with('\n')) {
    rest.remove_suffix(1);
  }
  is_negative = rest.starts_with('-');
  if (is_negative || rest.starts_with('+')) {
    rest.remove_prefix(1);
  }
  if (rest.empty() || std::isalnum(static_cast<unsigned char>(rest.front())) == 0) {
    return -EINVAL;
  }
  const std::string digits{rest};
  char* end = nullptr;
  errno = 0;
  to = std::strtoull(digits.c_str(), &end, static_cast<int>(base));
  if (*end != '\0' || end == digits.c_str()) {
    return -EINVAL;
  }
  return errno == ERANGE ? -ERANGE : 0;
}

template <class Number>
int parse_unsigned(const char* text, unsigned base, Number* to) {
  bool is_negative = false;
  unsigned long long number = 0;
  if (const int error = parse(text, base, is_negative, number); error != 0) {
    return error;
  }
  if (is_negative) {
    return -EINVAL;
  }
  if (number > std::numeric_limits<Number>::max()) {
    return -ERANGE;
  }
  *to = static_cast<Number>(number);
  return 0;
}

template <class Number>
int parse_signed(const char* text, unsigned base, Number* to) {
  bool is_negative = false;
  unsigned long long number = 0;
  if (const int error = parse(text, base, is_negative, number); error != 0) {
    return error;
  }
  const auto most = static_cast<unsigned long long>(std::numeric_limits<Number>::max());
  if (number > most + (is_negative ? 1 : 0)) {
    return -ERANGE;
  }
  *to = static_cast<Number>(is_negative ? 0 - number : number);
  return 0;
}

}  // namespace

unsigned long simple_strtoul(const char* text, char** end, unsigned base) {
  return std::strtoul(text, end, static_cast<int>(base));
}
long simple_strtol(const char* text, char** end, unsigned base) {
  return std::strtol(text, end, static_cast<int>(base));
}
unsigned long long simple_strtoull(const char* text, char** end, unsigned base) {
  return std::strtoull(text, end, static_cast<int>(base));
}

int kstrtoull(const char* text, unsigned base, unsigned long long* to) {
  return parse_unsigned(text, base, to);
}
int kstrtoul(const char* text, unsigned base, unsigned long* to) {
  return parse_unsigned(text, base, to);
}
int kstrtouint(const char* text, unsigned base, unsigned* to) {
  return parse_unsigned(text, base, to);
}
int kstrtou16(const char* text, unsigned base, u16* to) { return parse_unsigned(text, base, to); }
int kstrtou8(const char* text, unsigned base, u8* to) { return parse_unsigned(text, base, to); }
int kstrtoll(const char* text, unsigned base, long long* to) {
  return parse_signed(text, base, to);
}
int kstrtol(const char* text, unsigned base, long* to) { return parse_signed(text, base, to); }
int kstrtoint(const char* text, unsigned base, int* to) { return parse_signed(text, base, to); }

int kstrtobool(const char* text, bool* to) {
  const auto is = [&](const char* word) { return strcasecmp(text, word) == 0; };
  const std::string_view begin{text};
  if (begin.starts_with('y') || begin.starts_with('Y') || begin.starts_with('1') ||
      begin.starts_with('t') || begin.starts_with('T') || is("on") || is("on\n")) {
    *to = true;
    return 0;
  }
  if (begin.starts_with('n') || begin.starts_with('N') || begin.starts_with('0') ||
      begin.starts_with('f') || begin.starts_with('F') || is("off") || is("off\n")) {
    *to = false;
    return 0;
  }
  return -EINVAL;
}

ssize_t strscpy(char* to, const char* from, size_t size) {
  if (size == 0) {
    return -E2BIG;
  }
  const std::size_t length = strnlen(from, size);
  const std::size_t count = std::min(length, size - 1);
  std::memcpy(to, from, count);
  to[count] = '\0';
  return length < size ? static_cast<ssize_t>(count) : -E2BIG;
}

char* skip_spaces(const char* text) {
  while (std::isspace(static_cast<unsigned char>(*text)) != 0) {
    ++text;
  }
  return const_cast<char*>(text);
}

char* strim(char* text) {
  char* const begin = skip_spaces(text);
  std::size_t length = std::strlen(begin);
  while (length > 0 && std::isspace(static_cast<unsigned char>(begin[length - 1])) != 0) {
    begin[--length] = '\0';
  }
  return begin;
}

bool sysfs_streq(const char* a, const char* b) {
  const auto cut = [](std::string_view text) {
    return text.ends_with('\n') ? text.substr(0, text.size() - 1) : text;
  };
  return cut(a) == cut(b);
}

void* memchr_inv(const void* from, int c, size_t size) {
  const auto* const bytes = static_cast<const unsigned char*>(from);
  const auto* const end = bytes + size;
  const auto* const found = std::find_if(
      bytes, end, [&](unsigned char byte) { return byte != static_cast<unsigned char>(c); });
  return found == end ? nullptr : const_cast<unsigned char*>(found);
}

int match_string(const char* const* texts, size_t count, const char* text) {
  for (std::size_t i = 0; i < count && texts[i] != nullptr; ++i) {
    if (std::strcmp(texts[i], text) == 0) {
      return static_cast<int>(i);
    }
  }
  return -EINVAL;
}

void* kmemdup(const void* from, size_t size, gfp_t flags) {
  void* const copy = kmalloc(size, flags);
  if (copy != nullptr && size != 0) {
    std::memcpy(copy, from, size);
  }
  return copy;
}

char* kstrdup(const char* text, gfp_t flags) {
  return text == nullptr ? nullptr
                         : static_cast<char*>(kmemdup(text, std::strlen(text) + 1, flags));
}

char* kstrndup(const char* text, size_t most, gfp_t flags) {
  if (text == nullptr) {
    return nullptr;
  }
  const std::size_t length = strnlen(text, most);
  auto* const copy = static_cast<char*>(kmalloc(length + 1, flags));
  if (copy != nullptr) {
    std::memcpy(copy, text, length);
    copy[length] = '\0';
  }
  return copy;
}
