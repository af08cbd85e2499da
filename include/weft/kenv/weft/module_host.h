#pragma once

// The environment as the program sees it that loads a module: parameters, init and exit, entries.
// One module in a process.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

#define WEFT_KENV_HOST __attribute__((__visibility__("default")))

namespace weft::kenv {

struct ParameterDescription {
  std::string name;
  std::string type;
  std::string text;  ///< MODULE_PARM_DESC
};

/// Of the module that is loaded, in the order of their names.
WEFT_KENV_HOST std::vector<ParameterDescription> parameters();
/// As `name=value` says. NotFound: the module has no such parameter; InvalidArgument: that is no
/// value of its type.
WEFT_KENV_HOST Result<void> set_parameter(std::string_view name, std::string_view value);

/// Loads the shared object, whose constructors say what it has, and names the module after the
/// file. Io: it cannot be loaded, or has no module_init.
WEFT_KENV_HOST Result<void> load_module(const std::string& path);
[[nodiscard]] WEFT_KENV_HOST std::string name_of_module();
/// What its module_init returned: 0, or a negative error number.
[[nodiscard]] WEFT_KENV_HOST int start_module();
/// Busy: it has users. Else runs module_exit. NotSupported: it has none, and stays.
WEFT_KENV_HOST Result<void> stop_module();

/// A call of an entry: a number of bytes, or a negative error number.
struct EntryResult {
  long status{};
  std::string text;
};
/// Names of entries, of folders' entries with a slash between.
WEFT_KENV_HOST std::vector<std::string> entries();
WEFT_KENV_HOST EntryResult read_entry(std::string_view name);
WEFT_KENV_HOST EntryResult write_entry(std::string_view name, std::string_view text);

/// Whether KERN_DEBUG is shown, too.
WEFT_KENV_HOST void show_debug_messages(bool does);
/// Ends a line that the module has begun.
WEFT_KENV_HOST void end_line();

}  // namespace weft::kenv
