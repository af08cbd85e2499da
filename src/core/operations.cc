#include "core/operations.h"

#include <array>

namespace weft::core {
namespace {

enum class Need : std::uint8_t { Registration, KernelVerbs };

struct Row {
  std::string_view name;
  Need need;
  bool (*is_there)(const DeviceOperations&);
};

template <auto Member>
bool is_there(const DeviceOperations& operations) {
  return operations.*Member != nullptr;
}

using Ops = DeviceOperations;

constexpr auto kRows = std::to_array<Row>({
    {"query_device",       Need::Registration, is_there<&Ops::query_device>      },
    {"query_port",         Need::Registration, is_there<&Ops::query_port>        },
    {"get_port_immutable", Need::Registration, is_there<&Ops::get_port_immutable>},
    {"allocate_pd",        Need::KernelVerbs,  is_there<&Ops::allocate_pd>       },
    {"deallocate_pd",      Need::KernelVerbs,  is_there<&Ops::deallocate_pd>     },
    {"create_qp",          Need::KernelVerbs,  is_there<&Ops::create_qp>         },
    {"modify_qp",          Need::KernelVerbs,  is_there<&Ops::modify_qp>         },
    {"destroy_qp",         Need::KernelVerbs,  is_there<&Ops::destroy_qp>        },
    {"post_send",          Need::KernelVerbs,  is_there<&Ops::post_send>         },
    {"post_recv",          Need::KernelVerbs,  is_there<&Ops::post_recv>         },
    {"create_cq",          Need::KernelVerbs,  is_there<&Ops::create_cq>         },
    {"destroy_cq",         Need::KernelVerbs,  is_there<&Ops::destroy_cq>        },
    {"poll_cq",            Need::KernelVerbs,  is_there<&Ops::poll_cq>           },
    {"request_notify",     Need::KernelVerbs,  is_there<&Ops::request_notify>    },
    {"get_dma_mr",         Need::KernelVerbs,  is_there<&Ops::get_dma_mr>        },
    {"register_user_mr",   Need::KernelVerbs,  is_there<&Ops::register_user_mr>  },
    {"deregister_mr",      Need::KernelVerbs,  is_there<&Ops::deregister_mr>     },
});

}  // namespace

MissingOperations missing_operations(const DeviceOperations& operations) {
  MissingOperations missing;
  for (const Row& row : kRows) {
    if (!row.is_there(operations)) {
      (row.need == Need::Registration ? missing.mandatory : missing.kernel_verbs)
          .push_back(row.name);
    }
  }
  return missing;
}

}  // namespace weft::core
