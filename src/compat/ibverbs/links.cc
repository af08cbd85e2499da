#include "compat/ibverbs/links.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <span>

namespace weft::compat {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kJumpSlot = R_X86_64_JUMP_SLOT;
#elif defined(__aarch64__)
constexpr std::uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT;
#else
#error "Which relocation fills a link to a function on this processor?"
#endif

/// The parts of a loaded module that concern its links.
class Module {
 public:
  explicit Module(const dl_phdr_info& info)
      : base_(info.dlpi_addr), headers_(info.dlpi_phdr, info.dlpi_phnum) {}

  [[nodiscard]] bool holds(std::uintptr_t address) const { return in(PT_LOAD, address); }

  void redirect(std::span<const Replacement> replacements) const {
    for (const ElfW(Phdr) & header : headers_) {
      if (header.p_type == PT_DYNAMIC) {
        redirect(at<const ElfW(Dyn)>(base_ + header.p_vaddr), replacements);
      }
    }
  }

 private:
  template <typename T>
  [[nodiscard]] static T* at(std::uintptr_t address) {
    return reinterpret_cast<T*>(address);
  }

  [[nodiscard]] bool in(std::uint32_t type, std::uintptr_t address) const {
    return std::ranges::any_of(headers_, [&](const ElfW(Phdr) & header) {
      return header.p_type == type && address - base_ - header.p_vaddr < header.p_memsz;
    });
  }

  /// True if the page is entirely in what the loader made read-only after binding the links
  /// (RELRO).
  [[nodiscard]] bool is_read_only(std::uintptr_t page, std::uintptr_t page_bytes) const {
    return std::ranges::any_of(headers_, [&](const ElfW(Phdr) & header) {
      const std::uintptr_t begin = base_ + header.p_vaddr;
      return header.p_type == PT_GNU_RELRO && page + page_bytes > begin &&
             page + page_bytes <= begin + header.p_memsz;
    });
  }

  /// Redirects a link, unless its page cannot be made writable.
  void lead(std::uintptr_t slot, std::uintptr_t function) const {
    const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t page = slot & ~(page_bytes - 1);
    const bool opens = is_read_only(page, page_bytes);
    if (opens && mprotect(at<void>(page), page_bytes, PROT_READ | PROT_WRITE) != 0) {
      return;
    }
    std::atomic_ref{*at<std::uintptr_t>(slot)}.store(function, std::memory_order_relaxed);
    if (opens) {
      mprotect(at<void>(page), page_bytes, PROT_READ);
    }
  }

  void redirect(const ElfW(Dyn) * dynamic, std::span<const Replacement> replacements) const {
    std::uintptr_t strings = 0;
    std::uintptr_t symbols = 0;
    std::uintptr_t links = 0;
    std::size_t links_size = 0;
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
        default:
          break;
      }
    }
    if (strings == 0 || symbols == 0 || links == 0) {
      return;
    }
    const std::span table{at<const ElfW(Rela)>(links), links_size / sizeof(ElfW(Rela))};
    for (const ElfW(Rela) & link : table) {
      if (ELF64_R_TYPE(link.r_info) != kJumpSlot) {
        continue;
      }
      const auto& symbol = at<const ElfW(Sym)>(symbols)[ELF64_R_SYM(link.r_info)];
      const std::string_view name{at<const char>(strings) + symbol.st_name};
      const auto found = std::ranges::find(replacements, name, &Replacement::name);
      if (found != replacements.end()) {
        lead(base_ + link.r_offset, found->function);
      }
    }
  }

  std::uintptr_t base_;
  std::span<const ElfW(Phdr)> headers_;
};

struct Wanted {
  std::uintptr_t address;
  std::span<const Replacement> replacements;
};

}  // namespace

void lead_links_of(const void* address, std::span<const Replacement> replacements) {
  Wanted wanted{.address = reinterpret_cast<std::uintptr_t>(address), .replacements = replacements};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        const auto& asked = *static_cast<const Wanted*>(data);
        const Module module{*info};
        if (!module.holds(asked.address)) {
          return 0;
        }
        module.redirect(asked.replacements);
        return 1;
      },
      &wanted);
}

}  // namespace weft::compat
