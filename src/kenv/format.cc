#include "kenv/format.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include <linux/err.h>
#include <linux/string.h>

namespace weft::kenv {
namespace {

/// One conversion of a format.
struct Conversion {
  std::string start;  // with flags, width and precision, from the percent sign on
  int width{};
  std::string length;
  char kind{};
};

template <class Value>
void print(std::string& to, const Conversion& conversion, const char* length, Value value) {
  const std::string format = conversion.start + length + conversion.kind;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const int size = std::snprintf(nullptr, 0, format.c_str(), value);
  if (size > 0) {
    const std::size_t before = to.size();
    to.resize(before + static_cast<std::size_t>(size) + 1);
    std::snprintf(&to[before], static_cast<std::size_t>(size) + 1, format.c_str(), value);
    to.pop_back();
  }
#pragma GCC diagnostic pop
}

[[nodiscard]] std::string text_of(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const char* const made = inet_ntop(family, address, text.data(), text.size());
  return made != nullptr ? made : "?";
}

[[nodiscard]] std::string socket_address(const void* from, bool has_port) {
  sockaddr_storage storage{};
  std::memcpy(&storage.ss_family, from, sizeof storage.ss_family);
  if (storage.ss_family == AF_INET) {
    sockaddr_in address{};
    std::memcpy(&address, from, sizeof address);
    const std::string text = text_of(AF_INET, &address.sin_addr);
    return has_port ? fmt::format("{}:{}", text, ntohs(address.sin_port)) : text;
  }
  if (storage.ss_family == AF_INET6) {
    sockaddr_in6 address{};
    std::memcpy(&address, from, sizeof address);
    const std::string text = text_of(AF_INET6, &address.sin6_addr);
    return has_port ? fmt::format("[{}]:{}", text, ntohs(address.sin6_port)) : text;
  }
  return fmt::format("(address family {})", storage.ss_family);
}

[[nodiscard]] std::string bytes_of(const void* from, int count, std::string_view between) {
  std::string text;
  const auto* const bytes = static_cast<const unsigned char*>(from);
  for (int i = 0; i < count; ++i) {
    text += fmt::format("{}{:02x}", i == 0 ? "" : between, bytes[i]);
  }
  return text;
}

/// Takes the letters behind %p that say what it points to. False: it is shown as a number.
bool print_pointer(std::string& to, const char*& at, const void* pointer, int width) {
  const auto begins = [&](std::string_view with) {
    const bool does = std::strncmp(at, with.data(), with.size()) == 0;
    at += does ? with.size() : 0;
    return does;
  };
  constexpr int kMacBytes = 6;
  if (begins("e")) {
    to += IS_ERR(pointer)
              ? strerrorname_np(static_cast<int>(-PTR_ERR(pointer))) == nullptr
                    ? fmt::format("{}", PTR_ERR(pointer))
                    : fmt::format("-{}", strerrorname_np(static_cast<int>(-PTR_ERR(pointer))))
              : fmt::format("{}", pointer);
  } else if (IS_ERR_OR_NULL(pointer)) {
    return false;
  } else if (begins("I4") || begins("i4")) {
    to += text_of(AF_INET, pointer);
  } else if (begins("I6c") || begins("I6") || begins("i6")) {
    to += text_of(AF_INET6, pointer);
  } else if (begins("ISpc") || begins("ISp")) {
    to += socket_address(pointer, true);
  } else if (begins("ISc") || begins("IS")) {
    to += socket_address(pointer, false);
  } else if (begins("M")) {
    to += bytes_of(pointer, kMacBytes, ":");
  } else if (begins("hC")) {
    to += bytes_of(pointer, width, ":");
  } else if (begins("hN")) {
    to += bytes_of(pointer, width, "");
  } else if (begins("hD")) {
    to += bytes_of(pointer, width, "-");
  } else if (begins("h")) {
    to += bytes_of(pointer, width, " ");
  } else if (begins("a")) {
    at += *at == 'p' ? 1 : 0;
    std::uint64_t address = 0;
    std::memcpy(&address, pointer, sizeof address);
    to += fmt::format("{:#018x}", address);
  } else {
    return false;
  }
  return true;
}

/// The arguments that are left, which functions take from.
struct Arguments {
  va_list list;
};

/// Reads flags, width, precision and length; `at` is behind the percent sign, then behind the kind.
[[nodiscard]] Conversion read_conversion(const char*& at, Arguments& arguments) {
  Conversion conversion{.start = "%", .length = {}};
  for (; *at != '\0' && std::strchr("-+ #0123456789.*", *at) != nullptr; ++at) {
    if (*at == '*') {
      conversion.width = va_arg(arguments.list, int);
      conversion.start += std::to_string(conversion.width);
    } else {
      conversion.start += *at;
    }
  }
  for (; *at != '\0' && std::strchr("hlLqjzt", *at) != nullptr; ++at) {
    conversion.length += *at;
  }
  conversion.kind = *at;
  at += *at != '\0' ? 1 : 0;
  return conversion;
}

void print_number(std::string& to, const Conversion& conversion, Arguments& arguments) {
  const std::string& length = conversion.length;
  if (std::strchr("eEfFgGaA", conversion.kind) != nullptr) {
    print(to, conversion, "", va_arg(arguments.list, double));
  } else if (length == "ll" || length == "L" || length == "q" || length == "j") {
    print(to, conversion, "ll", va_arg(arguments.list, long long));
  } else if (length == "l" || length == "z" || length == "t") {
    print(to, conversion, "l", va_arg(arguments.list, long));
  } else {
    print(to, conversion, length.c_str(), va_arg(arguments.list, int));
  }
}

void print_one(std::string& to, const char*& at, Arguments& arguments) {
  Conversion conversion = read_conversion(at, arguments);
  if (conversion.kind == 'p') {
    const void* const pointer = va_arg(arguments.list, void*);
    if (print_pointer(to, at, pointer, conversion.width)) {
      return;
    }
    while (std::isalnum(static_cast<unsigned char>(*at)) != 0) {
      ++at;  // a letter that says how to show it, which is not known here
    }
    print(to, conversion, "", pointer);
  } else if (conversion.kind == 's') {
    const char* const text = va_arg(arguments.list, const char*);
    print(to, conversion, "", text != nullptr ? text : "(null)");
  } else if (conversion.kind == '%' || conversion.kind == '\0') {
    to += '%';
  } else {
    print_number(to, conversion, arguments);
  }
}

}  // namespace

std::string format_kernel(const char* format, va_list given) {
  std::string text;
  Arguments arguments{};
  va_copy(arguments.list, given);
  const char* at = format;
  while (*at != '\0') {
    if (*at != '%') {
      text += *at++;
      continue;
    }
    ++at;
    print_one(text, at, arguments);
  }
  va_end(arguments.list);
  return text;
}

}  // namespace weft::kenv
