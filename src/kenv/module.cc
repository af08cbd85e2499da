// The module of this process: parameters, init and exit, users.

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <linux/module.h>
#include <linux/string.h>

#include <weft/module_host.h>

decltype(weft_kenv_module) weft_kenv_module{};

namespace weft::kenv {
namespace {

/// What a parameter's value is written to.
struct Parameter {
  std::string type;
  std::byte* value{};
  unsigned most{};
  unsigned size{};
  unsigned* count{};
};

struct Module {
  std::map<std::string, Parameter, std::less<>> parameters;
  std::map<std::string, std::string, std::less<>> descriptions;
  std::list<std::string> texts;  // of charp parameters, until the process ends
  int (*init)(){};
  void (*exit)(){};
};

/// Never destroyed: constructors of modules use it, and their last threads may.
[[nodiscard]] Module& the_module() {
  static Module& one = *new Module;
  return one;
}

template <class Number>
int store(int error, Number number, std::byte* to) {
  if (error == 0) {
    std::memcpy(to, &number, sizeof number);
  }
  return error;
}

template <class Number>
int store_signed(const char* text, std::byte* to) {
  long number = 0;
  const int error = kstrtol(text, 0, &number);
  return error == 0 && !std::in_range<Number>(number)
             ? -ERANGE
             : store(error, static_cast<Number>(number), to);
}

template <class Number>
int store_unsigned(const char* text, std::byte* to) {
  unsigned long long number = 0;
  const int error = kstrtoull(text, 0, &number);
  return error == 0 && !std::in_range<Number>(number)
             ? -ERANGE
             : store(error, static_cast<Number>(number), to);
}

template <bool kInverted>
int store_bool(const char* text, std::byte* to) {
  bool value = true;
  const int error = *text == '\0' ? 0 : kstrtobool(text, &value);
  return store(error, value != kInverted, to);
}

int store_text(const char* text, std::byte* to) {
  the_module().texts.emplace_back(text);
  return store(0, the_module().texts.back().data(), to);
}

struct Type {
  std::string_view name;
  int (*store)(const char* text, std::byte* to);
  std::string_view what;
};
constexpr auto kTypes = std::to_array<Type>({
    {"byte",    store_unsigned<unsigned char>,      "a number from 0 to 255"            },
    {"short",   store_signed<short>,                "a number of 16 bits"               },
    {"ushort",  store_unsigned<unsigned short>,     "a number from 0 to 65535"          },
    {"int",     store_signed<int>,                  "a number of 32 bits"               },
    {"uint",    store_unsigned<unsigned>,           "a number of 32 bits without a sign"},
    {"long",    store_signed<long>,                 "a number of 64 bits"               },
    {"ulong",   store_unsigned<unsigned long>,      "a number of 64 bits without a sign"},
    {"ullong",  store_unsigned<unsigned long long>, "a number of 64 bits without a sign"},
    {"bool",    store_bool<false>,                  "y or n"                            },
    {"invbool", store_bool<true>,                   "y or n"                            },
    {"charp",   store_text,                         "a text"                            },
});

[[nodiscard]] const Type* find_type(std::string_view name) {
  const auto* const found = std::ranges::find(kTypes, name, &Type::name);
  return found == kTypes.end() ? nullptr : found;
}

Result<void> set_one(std::string_view name, const Type& type, const std::string& value,
                     std::byte* to) {
  if (type.store(value.c_str(), to) != 0) {
    return fail(ErrorCode::InvalidArgument, "{}={}: {} ({}) is {}", name, value, name, type.name,
                type.what);
  }
  return {};
}

Result<void> set_array(std::string_view name, const Type& type, const Parameter& parameter,
                       std::string_view value) {
  unsigned count = 0;
  for (std::size_t begin = 0; begin <= value.size(); ++count) {
    const std::size_t end = std::min(value.find(',', begin), value.size());
    if (count == parameter.most) {
      return fail(ErrorCode::InvalidArgument, "{}={}: it has {} values at most", name, value,
                  parameter.most);
    }
    const auto set = set_one(name, type, std::string{value.substr(begin, end - begin)},
                             parameter.value + std::size_t{count} * parameter.size);
    if (!set) {
      return set;
    }
    begin = end + 1;
  }
  *parameter.count = count;
  return {};
}

[[nodiscard]] std::string known_parameters() {
  std::string list;
  for (const auto& [name, parameter] : the_module().parameters) {
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", name, parameter.type);
  }
  return list.empty() ? "it has none" : "it has " + list;
}

}  // namespace

std::vector<ParameterDescription> parameters() {
  std::vector<ParameterDescription> list;
  for (const auto& [name, parameter] : the_module().parameters) {
    const auto text = the_module().descriptions.find(name);
    list.push_back({.name = name,
                    .type = parameter.type,
                    .text = text != the_module().descriptions.end() ? text->second : ""});
  }
  return list;
}

Result<void> set_parameter(std::string_view name, std::string_view value) {
  const auto found = the_module().parameters.find(name);
  if (found == the_module().parameters.end()) {
    return fail(ErrorCode::NotFound, "{} has no parameter {}: {}", name_of_module(), name,
                known_parameters());
  }
  const Parameter& parameter = found->second;
  if (parameter.type == "string") {
    if (value.size() >= parameter.size) {
      return fail(ErrorCode::InvalidArgument, "{}: a text of at most {} characters", name,
                  parameter.size - 1);
    }
    std::memcpy(parameter.value, value.data(), value.size());
    parameter.value[value.size()] = std::byte{};
    return {};
  }
  const Type* const type = find_type(parameter.type);
  if (type == nullptr) {
    return fail(ErrorCode::NotSupported, "{}: parameters of type {} are not known", name,
                parameter.type);
  }
  if (parameter.count != nullptr) {
    return set_array(name, *type, parameter, value);
  }
  return set_one(name, *type, std::string{value}, parameter.value);
}

Result<void> load_module(const std::string& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::absolute(path, error);
  if (!std::filesystem::is_regular_file(file, error)) {
    return fail(ErrorCode::NotFound, "{} is no file", path);
  }
  strscpy(&weft_kenv_module.name[0], file.stem().c_str(), sizeof weft_kenv_module.name);
  if (dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    const char* const why = dlerror();
    return fail(ErrorCode::Io, "{} cannot be loaded: {}", path,
                why != nullptr ? why : "no reason given");
  }
  if (the_module().init == nullptr) {
    return fail(ErrorCode::Io, "{} is no module: it has no module_init()", path);
  }
  return {};
}

std::string name_of_module() { return &weft_kenv_module.name[0]; }

int start_module() { return the_module().init(); }

Result<void> stop_module() {
  if (the_module().exit == nullptr) {
    return fail(ErrorCode::NotSupported, "{} has no module_exit(), so that it stays",
                name_of_module());
  }
  int unused = 0;
  constexpr int kGone = -1;
  if (!__atomic_compare_exchange_n(&weft_kenv_module.uses.counter, &unused, kGone, false,
                                   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    return fail(ErrorCode::Busy, "{} is in use: {} calls or objects of it are there",
                name_of_module(), unused);
  }
  the_module().exit();
  return {};
}

}  // namespace weft::kenv

void weft_kenv_set_init(int (*function)(void)) { weft::kenv::the_module().init = function; }
void weft_kenv_set_exit(void (*function)(void)) { weft::kenv::the_module().exit = function; }

void weft_kenv_add_parameter(const char* name, const char* type, void* value, unsigned most,
                             unsigned size, unsigned* count) {
  weft::kenv::the_module().parameters.insert_or_assign(
      name, weft::kenv::Parameter{.type = type,
                                  .value = static_cast<std::byte*>(value),
                                  .most = most,
                                  .size = size,
                                  .count = count});
}

void weft_kenv_describe_parameter(const char* name, const char* text) {
  weft::kenv::the_module().descriptions.insert_or_assign(name, text);
}

bool try_module_get(struct module* module) {
  int uses = atomic_read(&module->uses);
  while (uses >= 0) {
    if (__atomic_compare_exchange_n(&module->uses.counter, &uses, uses + 1, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST)) {
      return true;
    }
  }
  return false;
}

void __module_get(struct module* module) { atomic_inc(&module->uses); }
void module_put(struct module* module) { atomic_dec(&module->uses); }
