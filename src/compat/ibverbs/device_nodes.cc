#include "compat/ibverbs/device_nodes.h"

#include <elf.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace weft::compat {
namespace {

constexpr char kFolder[] = "/dev/infiniband/";
constexpr const char* kStandIn = "/dev/null";  // a character device that everybody may use

#if defined(__x86_64__)
constexpr std::uint32_t kJumpSlot = R_X86_64_JUMP_SLOT;
#elif defined(__aarch64__)
constexpr std::uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT;
#else
#error "Which relocation fills a link to a function on this processor?"
#endif

[[nodiscard]] const char* stand_in_for(const char* path) {
  constexpr std::size_t kLength = sizeof kFolder - 1;
  const bool ours = path != nullptr && std::strncmp(path, kFolder, kLength) == 0 &&
                    is_device_node(path + kLength);
  return ours ? kStandIn : path;
}

int stat_or_stand_in(const char* path, struct stat* status) {
  return stat(stand_in_for(path), status);
}

int access_or_stand_in(const char* path, int mode) { return access(stand_in_for(path), mode); }

struct Replacement {
  const char* name;
  std::uintptr_t function;
};

[[nodiscard]] std::uintptr_t replacement_for(const char* name) {
  static const Replacement replacements[] = {
      {"stat",   reinterpret_cast<std::uintptr_t>(&stat_or_stand_in)  },
      {"access", reinterpret_cast<std::uintptr_t>(&access_or_stand_in)}
  };
  for (const Replacement& each : replacements) {
    if (std::strcmp(each.name, name) == 0) {
      return each.function;
    }
  }
  return 0;
}

/// What the loader mapped of a module, as far as its links are concerned.
class Module {
 public:
  explicit Module(const dl_phdr_info& info)
      : base_(info.dlpi_addr), headers_(info.dlpi_phdr, info.dlpi_phnum) {}

  [[nodiscard]] bool holds(std::uintptr_t address) const { return in(PT_LOAD, address); }

  void redirect() const {
    for (const ElfW(Phdr) & header : headers_) {
      if (header.p_type == PT_DYNAMIC) {
        redirect(at<const ElfW(Dyn)>(base_ + header.p_vaddr));
      }
    }
  }

 private:
  template <typename T>
  [[nodiscard]] static T* at(std::uintptr_t address) {
    return reinterpret_cast<T*>(address);
  }

  [[nodiscard]] bool in(std::uint32_t type, std::uintptr_t address) const {
    for (const ElfW(Phdr) & header : headers_) {
      if (header.p_type == type && address - base_ - header.p_vaddr < header.p_memsz) {
        return true;
      }
    }
    return false;
  }

  void redirect(const ElfW(Dyn) * dynamic) const {
    std::uintptr_t strings = 0;
    std::uintptr_t symbols = 0;
    std::uintptr_t links = 0;
    std::size_t links_size = 0;
    bool bound_at_load = false;  // then the loader made all links read-only when it had them
    for (; dynamic->d_tag != DT_NULL; ++dynamic) {
      const std::uintptr_t value = dynamic->d_un.d_ptr;  // glibc has added the base
      switch (dynamic->d_tag) {
        case DT_STRTAB:
          strings = value;
          break;
        case DT_SYMTAB:
          symbols = value;
          break;
        case DT_JMPREL:
          links = value;
          break;
        case DT_PLTRELSZ:
          links_size = dynamic->d_un.d_val;
          break;
        case DT_BIND_NOW:
          bound_at_load = true;
          break;
        case DT_FLAGS:
          bound_at_load = bound_at_load || (dynamic->d_un.d_val & DF_BIND_NOW) != 0;
          break;
        default:
          break;
      }
    }
    if (strings == 0 || symbols == 0 || links == 0 || bound_at_load) {
      return;
    }
    const std::span table{at<const ElfW(Rela)>(links), links_size / sizeof(ElfW(Rela))};
    for (const ElfW(Rela) & link : table) {
      const std::uintptr_t slot = base_ + link.r_offset;
      if (ELF64_R_TYPE(link.r_info) != kJumpSlot || in(PT_GNU_RELRO, slot)) {
        continue;
      }
      const auto& symbol = at<const ElfW(Sym)>(symbols)[ELF64_R_SYM(link.r_info)];
      if (const std::uintptr_t function = replacement_for(at<const char>(strings) + symbol.st_name);
          function != 0) {
        std::atomic_ref{*at<std::uintptr_t>(slot)}.store(function, std::memory_order_relaxed);
      }
    }
  }

  std::uintptr_t base_;
  std::span<const ElfW(Phdr)> headers_;
};

}  // namespace

void answer_for_device_nodes(const void* address) {
  auto wanted = reinterpret_cast<std::uintptr_t>(address);
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        const Module module{*info};
        if (!module.holds(*static_cast<const std::uintptr_t*>(data))) {
          return 0;
        }
        module.redirect();
        return 1;
      },
      &wanted);
}

}  // namespace weft::compat
