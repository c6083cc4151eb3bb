//! Bindings of what `include/*.h` names, and of nothing else.

use std::path::PathBuf;

use bindgen::{Builder, EnumVariation};

/// A set of functions that one struct of function pointers holds, and the types and values that they need.
struct Api {
    header: &'static str,
    name: &'static str,
    functions: &'static str,
    types: &'static str,
    values: &'static str,
}

const APIS: [Api; 2] = [
    Api {
        header: "acl_api",
        name: "AclApi",
        functions: "acl(Init|Finalize|GetRecentErrMsg)\
            |aclrt(GetVersion|GetSocName|GetDeviceCount|GetDeviceInfo|SetDevice|ResetDevice)\
            |aclrt(Create|Destroy)(Stream|Event)|aclrt(Get|Set)CurrentContext\
            |aclrt(Malloc|Free|Memcpy|Memset|GetMemInfo)\
            |aclrtSynchronizeStreamWithTimeout|aclrtRecordEvent|aclrtEventElapsedTime\
            |aclrtGetHardwareSyncAddr|rtGetC2cCtrlAddr",
        types: "",
        values: "ACL_(SUCCESS|ERROR_.*)|ACL_MEM_MALLOC_HUGE_FIRST|ACL_MEMCPY_(HOST_TO_DEVICE|DEVICE_TO_HOST)\
            |ACL_(HBM_MEM|DEV_ATTR_(CUBE|VECTOR)_CORE_NUM)",
    },
    Api {
        header: "hccl_api",
        name: "HcclApi",
        functions: "Hccl(GetRootInfo|CommInitRootInfo|CommInitAll|GetCommName|GetRankId|GetRankSize)\
            |Hccl(Barrier|CommDestroy|GetErrorString|AllocComResourceByTiling)\
            |Hcom(GetCommHandleByGroup|GetL0TopoTypeEx)",
        types: "CommResourceTiling|MeshContext|RingContext|RingRemote|RingRemoteWindow",
        values: "HCCL_(SUCCESS|E_.*|ROOT_INFO_BYTES)|COMM_NAME_MAX_LENGTH|MEGAMOE_.*",
    },
];

/// Writes one file for each set.
pub(crate) fn all() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build/generate.rs");
    println!("cargo::rerun-if-changed=include");
    let folders = include_folders()?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    for api in &APIS {
        let text = api.generate(&folders)?;
        let path = out.join(format!("{}.rs", api.header));
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

impl Api {
    fn generate(&self, folders: &[PathBuf]) -> Result<String, String> {
        let includes = folders
            .iter()
            .map(|folder| format!("-I{}", folder.display()));
        let bindings = Builder::default()
            .header(format!("include/{}.h", self.header))
            .clang_args(["-x", "c++", "-std=c++17"])
            .clang_args(includes)
            .dynamic_library_name(self.name)
            .dynamic_link_require_all(false)
            .allowlist_function(self.functions)
            .allowlist_type(self.types)
            .allowlist_var(self.values)
            .default_enum_style(EnumVariation::Consts)
            .prepend_enum_name(false)
            .generate_comments(false)
            .layout_tests(true)
            .merge_extern_blocks(true)
            .sort_semantically(true)
            .generate()
            .map_err(|error| format!("include/{}.h: {error}", self.header))?;
        Ok(bindings.to_string())
    }
}

/// Folders of CANN's headers: `CANN_INCLUDE_PATH`, a list, or those of the installed CANN.
fn include_folders() -> Result<Vec<PathBuf>, String> {
    const LIST: &str = "CANN_INCLUDE_PATH";
    const HOMES: [&str; 2] = ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"];
    for variable in [LIST, HOMES[0], HOMES[1]] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    if let Some(list) = std::env::var_os(LIST) {
        return Ok(std::env::split_paths(&list).collect());
    }
    let home = HOMES.iter().find_map(std::env::var_os);
    let home = home.ok_or_else(|| {
        format!(
            "the feature `bindgen` needs CANN's headers: set {} to its folder, or {LIST} to theirs",
            HOMES[0]
        )
    })?;
    Ok(vec![PathBuf::from(home).join("include")])
}
